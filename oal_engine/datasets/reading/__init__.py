"""Read a file into items: its texts, numbers, labels and ids, and why rows were skipped.

A file goes through these modules: sources and encodings (open, decode), readers and refusals (which format), one of
delimited, tables, json_files, conversations, references, foreign and archives (columns and rows, `ParsedFile`), guesses
(the roles of the columns), labels and codings (the meaning of words), items, and second_look, which compares the result
with itself. preview does this for the questions before an import, file for the import.
"""

from .codings import Codings
from .file import VECTORS, Vectors, description, open_items, read, read_lines, read_vectors
from .guesses import question_names
from .items import MISSING, Item, Items, reasons
from .labels import answers, gaps_among, may_be_gap
from .parsed import Columns, Skipped, counted, plural
from .preview import Peek, layout_sentence, peek, size_sentence
from .readers import READERS, reader_for
from .sources import DataError, open_source
