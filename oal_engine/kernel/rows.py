"""Rows as the kernel reads them: sparse (CSR), dense, or mixed; read-only, memory-mapped from disk.

Appended rows are written after the rows in the files. The file headers keep the original number of rows; callers pass
the current number. Existing memory maps stay valid, and the next append overwrites rows that a crashed append has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .jit import inlined, instruction, method
from .vectors import inner

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Matrix: TypeAlias = "csr_array | np.ndarray"

AHEAD = 12  # rows between a prefetch and its use
CACHE_LINE_BYTES = 64
LANES = 16  # number of partial sums over a block (SIMD lanes)


@instruction
def prefetch_line(array, index):
    """Prefetch the cache line of an element of a flat array; an index out of range is harmless."""


@instruction
def lane_sum(w, first, x, start, count, squares):
    """Sum w[first + k] x[start + k] over k < count, a multiple of LANES; if `squares`, w[first + k] x[start + k]^2.

    LANES partial sums are added pairwise, halves to halves, so every machine gets the same sum. A loop would add one
    number at a time, or with fast-math in an order that depends on the machine.
    """
    w, x = (each[at : at + count].astype(np.float64) for each, at in ((w, first), (x, start)))
    lanes = np.zeros(LANES)
    for lane in (w * x * x if squares else w * x).reshape(-1, LANES):
        lanes += lane
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    return lanes[0]


@inlined
def _in_order(order, t):
    """Return whether the next rows are consecutive; then the processor prefetches them by itself."""
    last = min(t + AHEAD, order.size - 1)
    return order[last] - order[t] == last - t


@inlined
def _prefetch_table(values, columns, step, order, t):
    # Callers pass the step as a constant: the division that computes it would take a tenth of a round.
    if t + AHEAD < order.size and not _in_order(order, t):
        start = order[t + AHEAD] * columns
        for k in range(start, start + columns, step):
            prefetch_line(values, k)


class SparseRows(NamedTuple):
    """CSR rows: indptr int64, indices uint32 (sorted, unique in a row), values float64, and the number of columns."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    columns: int

    def span(self, i):
        i = np.uintp(i)  # an unsigned index needs no check for negative values
        return range(self.indptr[i], self.indptr[i + np.uintp(1)])

    def entry(self, i, k):
        k = np.uintp(k)
        return self.indices[k], self.values[k]

    def prefetch(self, order, t):
        if _in_order(order, t):
            return
        if t + 2 * AHEAD < order.size:
            prefetch_line(self.indptr, order[t + 2 * AHEAD])
        if t + AHEAD < order.size:
            i = order[t + AHEAD]
            for k in range(self.indptr[i], self.indptr[i + 1], CACHE_LINE_BYTES // 4):
                prefetch_line(self.indices, k)
                prefetch_line(self.values, k)
                prefetch_line(self.values, k + CACHE_LINE_BYTES // 8)


class DenseRows(NamedTuple):
    """Dense rows: values float64 (float32 in mixed rows), C order, shape (n, columns), flattened so that one pointer
    walks through them."""

    values: np.ndarray
    columns: int

    def span(self, i):
        return range(i * self.columns, (i + 1) * self.columns)

    def entry(self, i, k):
        return np.uintp(k - i * self.columns), np.float64(self.values[np.uintp(k)])

    def prefetch(self, order, t):
        _prefetch_table(self.values, self.columns, CACHE_LINE_BYTES // 8, order, t)


class MixedRows(NamedTuple):
    """Rows whose first columns are sparse and whose last `width` columns are dense. block: the values of the dense
    columns, float32, C order, flattened."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    block: np.ndarray
    width: int
    columns: int

    def sparse_part(self):
        return SparseRows(self.indptr, self.indices, self.values, self.columns - self.width)

    def dense_part(self):
        return DenseRows(self.block, self.width)

    def span(self, i):
        return range(self.indptr[i], self.indptr[i + 1] + self.width)

    def entry(self, i, k):
        behind = k - self.indptr[i + 1]
        if behind < 0:
            k = np.uintp(k)
            return np.uintp(self.indices[k]), self.values[k]
        j, x_j = entry(dense_part(self), i, i * self.width + behind)
        return np.uintp(self.columns - self.width) + j, x_j

    def prefetch(self, order, t):
        prefetch(sparse_part(self), order, t)
        _prefetch_table(self.block, self.width, CACHE_LINE_BYTES // 4, order, t)

    def row_sum(self, i, w, squares):
        first, start = self.columns - self.width, i * self.width
        return row_sum(sparse_part(self), i, w, squares) + _block_sum(w, first, self.block, start, self.width, squares)

    def row_add(self, i, w, a):
        row_add(sparse_part(self), i, w, a)
        row_add(dense_part(self), i, w[self.columns - self.width :], a)

    def row_squared(self, i):
        start = i * self.width
        return row_squared(sparse_part(self), i) + _block_sum(self.block, start, self.block, start, self.width, False)


Rows: TypeAlias = SparseRows | DenseRows | MixedRows
KINDS: dict[str, type] = {"sparse": SparseRows, "dense": DenseRows, "mixed": MixedRows}


class Row(NamedTuple):
    """Row number i of `rows`; the x in the papers' formulas."""

    rows: Rows
    i: int


class MeasuredRow(NamedTuple):
    """A row with its squared norm, which is computed once and used for several settings of a learner."""

    rows: Rows
    i: int
    xx: float

    def squared(self):
        return self.xx


@inlined
def _term(w, rows, i, k, squares):
    j, x_j = entry(rows, i, k)
    return w[j] * x_j * x_j if squares else w[j] * x_j


@inlined
def _block_sum(w, first, x, start, count, squares):
    whole = count - count % LANES
    total = lane_sum(w, first, x, start, whole, squares)
    for k in range(whole, count):
        w_k, x_k = w[np.uintp(first + k)], np.float64(x[np.uintp(start + k)])
        total += w_k * x_k * x_k if squares else w_k * x_k
    return total


def _row_sum(rows, i, w, squares):
    k, stop = span(rows, i).start, span(rows, i).stop
    a = b = c = d = 0.0  # four sums in a fixed order, which the processor adds in parallel
    while k + 3 < stop:
        a += _term(w, rows, i, k, squares)
        b += _term(w, rows, i, k + 1, squares)
        c += _term(w, rows, i, k + 2, squares)
        d += _term(w, rows, i, k + 3, squares)
        k += 4
    while k < stop:
        a += _term(w, rows, i, k, squares)
        k += 1
    return (a + b) + (c + d)


def _row_add(rows, i, w, a):
    for k in span(rows, i):
        j, x_j = entry(rows, i, k)
        w[j] += a * x_j


def _row_squared(rows, i):
    total = 0.0
    for k in span(rows, i):
        x_j = entry(rows, i, k)[1]
        total += x_j * x_j
    return total


def columns_and_values(rows, i):
    """Return the columns of row i, an array or a slice, and its values. For mixed rows: of its sparse part."""
    if isinstance(rows, DenseRows):
        return slice(0, rows.columns), rows.values[i * rows.columns : (i + 1) * rows.columns]
    start, stop = rows.indptr[i], rows.indptr[i + 1]
    return rows.indices[start:stop], rows.values[start:stop]


def _plain_sum(rows, i, w, squares):
    j, x = columns_and_values(rows, i)
    terms = w[j] * x * x if squares else w[j] * x
    whole = terms.size - terms.size % 4
    lanes = np.zeros((whole // 4 + 1, 4))
    lanes[1:] = terms[:whole].reshape(-1, 4)
    a, b, c, d = np.add.accumulate(lanes)[-1]
    for term in terms[whole:]:
        a += term
    total = (a + b) + (c + d)
    if isinstance(rows, MixedRows):
        total += _block_sum(w, rows.columns - rows.width, rows.block, i * rows.width, rows.width, squares)
    return total


def _plain_add(rows, i, w, a):
    j, x = columns_and_values(rows, i)
    w[j] += a * x.astype(np.float64)
    if isinstance(rows, MixedRows):
        _plain_add(rows.dense_part(), i, w[rows.columns - rows.width :], a)


def _plain_squared(rows, i):
    x = columns_and_values(rows, i)[1].astype(np.float64)
    total = inner(x, x)
    if isinstance(rows, MixedRows):
        start = i * rows.width
        total += _block_sum(rows.block, start, rows.block, start, rows.width, False)
    return total


span = method("span")
entry = method("entry")
prefetch = method("prefetch", plain=lambda rows, order, t: None)
sparse_part = method("sparse_part")
dense_part = method("dense_part")
row_sum = method("row_sum", _row_sum, plain=_plain_sum)
row_add = method("row_add", _row_add, plain=_plain_add)
row_squared = method("row_squared", _row_squared, plain=_plain_squared)


@inlined
def dot(w, x):
    """Return the inner product of a weight vector and a row."""
    return row_sum(x.rows, x.i, w, False)


@inlined
def quadratic(s, x):
    """Return x' diag(s) x of a row."""
    return row_sum(x.rows, x.i, s, True)


@inlined
def add(w, a, x):
    """Add a x to w in place."""
    row_add(x.rows, x.i, w, a)


squared = method("squared", lambda x: row_squared(x.rows, x.i))  # x.x


def read_only(array: ArrayLike, dtype: DTypeLike) -> np.ndarray:
    """Return a C-contiguous read-only view of an array, or of a converted copy if needed. A writable array has another
    type in numba, for which code would be compiled again."""
    view = np.ascontiguousarray(array, dtype=dtype).view(np.ndarray)
    view.flags.writeable = False
    return view


def is_sparse(matrix: Any) -> TypeGuard[csr_array]:
    """Return whether a matrix is a sparse one of scipy, which need not be imported to tell."""
    return hasattr(matrix, "tocsr")


def as_rows(matrix: Rows | Matrix | ArrayLike) -> Rows:
    """Convert a scipy sparse matrix or a 2-D array to SparseRows or DenseRows; rows are returned as they are. Raise
    ValueError if a number is not finite."""
    if isinstance(matrix, Rows):
        return matrix
    if hasattr(matrix, "tocsr"):
        csr = matrix.tocsr()
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        rows: Rows = sparse_rows(csr.indptr, csr.indices, csr.data, csr.shape[1])
    else:
        array = np.asarray(matrix, dtype=np.float64)
        if array.ndim != 2:
            raise ValueError(f"rows must be a table with 2 dimensions. Got {array.ndim}.")
        rows = dense_rows(array.ravel(), array.shape[1])
    if not np.isfinite(rows.values).all():
        raise ValueError("rows must be finite numbers. Got NaN or infinity.")
    return rows


def sparse_rows(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, columns: int) -> SparseRows:
    """Build sparse rows from the arrays of a CSR matrix, with read-only views of the arrays."""
    return SparseRows(
        read_only(indptr, np.int64), read_only(indices, np.uint32), read_only(values, np.float64), int(columns)
    )


def dense_rows(values: np.ndarray, columns: int) -> DenseRows:
    """Build dense rows from their flattened values, with a read-only view of the values."""
    return DenseRows(read_only(values, np.float64), int(columns))


def mixed_rows(sparse: SparseRows, table: np.ndarray) -> MixedRows:
    """Append the columns of a dense table, shape (n, width), to sparse rows."""
    width = table.shape[1]
    return MixedRows(*sparse[:-1], read_only(table.ravel(), np.float32), width, sparse.columns + width)


def with_column(rows: Rows, values: np.ndarray) -> Rows:
    """Append one column to rows of any kind. Sparse rows become mixed rows."""
    if isinstance(rows, SparseRows):
        return mixed_rows(rows, values[:, None])
    dense: Any = matrix(rows.dense_part() if isinstance(rows, MixedRows) else rows)
    table = np.column_stack([dense, values])
    return mixed_rows(rows.sparse_part(), table) if isinstance(rows, MixedRows) else as_rows(table)


def entries_per_row(rows: Rows) -> float:
    """Return how many entries a row has in the mean."""
    if isinstance(rows, DenseRows):
        return rows.columns
    sparse = (rows.indptr[-1] - rows.indptr[0]) / max(1, length(rows))
    return sparse + rows.width if isinstance(rows, MixedRows) else sparse


def length(rows: Rows) -> int:
    """Return the number of rows."""
    return rows.values.size // max(1, rows.columns) if isinstance(rows, DenseRows) else rows.indptr.size - 1


def matrix(rows: Rows) -> Matrix:
    """Return the rows as a matrix that shares their memory: a scipy CSR array, or a 2-D array for dense rows. Mixed
    rows are copied into a CSR array."""
    if isinstance(rows, DenseRows):
        return rows.values.reshape(-1, rows.columns)
    from scipy.sparse import csr_array, hstack

    if isinstance(rows, MixedRows):
        parts: list[Any] = [matrix(rows.sparse_part()), csr_array(matrix(rows.dense_part()).astype(np.float64))]
        return csr_array(hstack(parts, format="csr"))
    indices, indptr = rows.indices, rows.indptr
    if max(indices.size, rows.columns) < 2**31:  # both int32, or scipy would copy the indices
        indices, indptr = indices.view(np.int32), indptr.astype(np.int32)
    return csr_array((rows.values, indices, indptr), shape=(length(rows), rows.columns))


def inner_products(rows: Rows, others: Rows) -> np.ndarray:
    """Return the inner products of n rows with m others of the same kind, shape (n, m)."""
    if isinstance(rows, MixedRows):
        others = cast(MixedRows, others)
        sparse = inner_products(rows.sparse_part(), others.sparse_part())
        return sparse + inner_products(rows.dense_part(), others.dense_part())
    products: Any = matrix(rows) @ matrix(others).T
    return np.asarray(products.toarray() if hasattr(products, "toarray") else products, np.float64)


def take(rows: Rows, places: np.ndarray) -> Rows:
    """Copy the rows at the positions `places`, in this order."""
    if isinstance(rows, MixedRows):
        sparse = cast(SparseRows, take(rows.sparse_part(), places))
        return mixed_rows(sparse, rows.block.reshape(-1, rows.width)[places])
    return as_rows(matrix(rows)[places])


def joined(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows of one kind, in order."""
    if len(parts) == 1:
        return parts[0]
    together: dict[str, Any] = {
        name: read_only(np.concatenate([getattr(part, name) for part in parts]), value.dtype)
        for name, value in arrays(parts[0]).items()
    }
    if "indptr" in together:
        sizes = np.concatenate([np.diff(cast(SparseRows, part).indptr) for part in parts])
        together["indptr"] = read_only(np.append(0, np.cumsum(sizes)), np.int64)
    return parts[0]._replace(**together)


def arrays(rows: Rows) -> dict[str, np.ndarray]:
    """Return the arrays that hold the rows, by field name. On disk, each array is a separate file."""
    return {name: value for name, value in rows._asdict().items() if isinstance(value, np.ndarray)}


def nonzero(rows: Rows, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nonzero columns of row i, and their values."""
    if isinstance(rows, MixedRows):
        columns, values = nonzero(rows.sparse_part(), i)
        block_columns, block_values = nonzero(rows.dense_part(), i)
        return np.append(columns, block_columns + rows.columns - rows.width), np.append(values, block_values)
    if isinstance(rows, DenseRows):
        row = rows.values[i * rows.columns : (i + 1) * rows.columns]
        columns = np.flatnonzero(row)
        return columns, row[columns]
    entries = slice(rows.indptr[i], rows.indptr[i + 1])
    return rows.indices[entries].astype(np.int64), rows.values[entries]


def entries(rows: Rows, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of the rows at some positions, row by row, as two arrays: the index into `places` of each
    entry, and its column. For mixed rows only the sparse part is read."""
    if isinstance(rows, DenseRows):
        return cast(tuple[np.ndarray, np.ndarray], np.nonzero(cast(np.ndarray, matrix(rows))[places]))
    starts = rows.indptr[places]
    sizes = rows.indptr[places + 1] - starts
    row_indices = np.repeat(np.arange(places.size), sizes)
    return row_indices, rows.indices[np.arange(row_indices.size) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)]


def content(rows: Rows, i: int) -> bytes:
    """Return the content of row i as bytes, which are different for different rows."""
    if isinstance(rows, MixedRows):
        return content(rows.sparse_part(), i) + content(rows.dense_part(), i)
    if isinstance(rows, DenseRows):
        return (rows.values[i * rows.columns : (i + 1) * rows.columns] + 0.0).tobytes()  # -0.0 is 0.0
    entries = slice(rows.indptr[i], rows.indptr[i + 1])
    return rows.indices[entries].tobytes() + rows.values[entries].tobytes()
