"""docs/schema.sql is the schema of a new database."""

import re
from contextlib import closing

from oal_engine.store import Store, migrations
from tests.harness import ROOT


def test_the_schema_in_the_documentation_is_that_of_a_new_database(tmp_path):
    """docs/schema.sql, without its comments, has the statements of every table and index, and no others."""
    written = re.sub(r"--.*", "", (ROOT / "docs" / "schema.sql").read_text()).split(";")
    with closing(Store(tmp_path / "new.db")) as store:
        made = store.query(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' AND tbl_name NOT LIKE ?",
            f"{migrations.LIST}%",
        )
    assert {_plain(sql) for sql in written} - {""} == {_plain(row["sql"]) for row in made}


def _plain(sql):
    return re.sub(r"\s+", "", sql)
