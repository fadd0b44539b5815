"""Truncated singular value decomposition (SVD) of rows, with the same bits on every machine.

Randomized subspace iteration (Halko, Martinsson and Tropp 2011) that starts from fixed random numbers. Every sum has a
fixed order, without BLAS, LAPACK or fast-math.
"""

import numpy as np

from . import jit
from .draws import draws
from .jit import entrance, plain_form_of
from .rows import DenseRows, Rows, columns_and_values, entries_per_row, entry, length, read_only, span
from .vectors import in_order

# Seconds of plain Python, for a step of a rotation, for a product of two numbers in numpy, and for a row
ENTRY_SECONDS, PRODUCT_SECONDS, ROW_SECONDS = 3e-7, 2e-9, 2e-5
SPARE = 20  # extra directions (oversampling), with which the last wanted ones converge sooner
ITERATIONS = 6
CHUNK_ROWS = 10_000  # rows that are overwritten at a time
SWEEPS = 30  # most sweeps of rotations; about eight suffice
EXACT = 2.0**-52  # off the diagonal, numbers below this share of the largest on the diagonal count as zero
SMALLEST = 1e-12  # smallest squared singular value that is kept, relative to the largest


def _add_in_turn(rows, table, out, transposed):
    for i in range(len(table) if transposed else len(out)):
        for n in span(rows, i):
            j, x_j = entry(rows, i, n)
            to, of = (np.uintp(j), np.uintp(i)) if transposed else (np.uintp(i), np.uintp(j))
            for k in range(out.shape[1]):
                out[to, k] += x_j * table[of, k]


@plain_form_of(_add_in_turn)
def _add_rows(rows, table, out, transposed):
    for i in range(len(table) if transposed else len(out)):
        columns, x = columns_and_values(rows, i)
        if transposed:
            out[columns] += x[:, None] * table[i]
        else:
            out[i] = in_order(x[:, None] * table[columns])


@entrance(
    lambda rows, table, out, _: length(rows) * (ROW_SECONDS + entries_per_row(rows) * out.shape[1] * PRODUCT_SECONDS)
)
def _add_product(rows, table, out, transposed):
    """Add the product of rows, sparse or dense, and a table to `out`, which is 0. transposed: of the transposed rows.
    One function, which is compiled once for rows of a kind."""
    _add_rows(rows, table, out, transposed)


@entrance(lambda matrix, vectors: 24 * len(matrix) ** 3 * ENTRY_SECONDS)
def _diagonalize(matrix, vectors):
    """Diagonalize a symmetric matrix by Jacobi rotations, and apply them to the rows of `vectors`."""
    size = matrix.shape[0]
    for _ in range(SWEEPS):
        turned, largest = False, 0.0
        for p in range(size):
            largest = max(largest, abs(matrix[p, p]))
        for p in range(size):
            for q in range(p + 1, size):
                if abs(matrix[p, q]) > EXACT * largest:
                    turned = True
                    ratio = (matrix[q, q] - matrix[p, p]) / (2 * matrix[p, q])
                    tangent = (1.0 if ratio >= 0 else -1.0) / (abs(ratio) + np.sqrt(ratio * ratio + 1))
                    cosine = 1 / np.sqrt(tangent * tangent + 1)
                    sine = tangent * cosine
                    for k in range(size):
                        a, b = matrix[p, k], matrix[q, k]
                        matrix[p, k], matrix[q, k] = cosine * a - sine * b, sine * a + cosine * b
                        a, b = vectors[p, k], vectors[q, k]
                        vectors[p, k], vectors[q, k] = cosine * a - sine * b, sine * a + cosine * b
                    for k in range(size):
                        a, b = matrix[k, p], matrix[k, q]
                        matrix[k, p], matrix[k, q] = cosine * a - sine * b, sine * a + cosine * b
                    matrix[p, q] = matrix[q, p] = 0.0
        if not turned:
            break


def multiply(rows: Rows, table: np.ndarray) -> np.ndarray:
    """Return the product of rows and a table."""
    out = np.zeros((length(rows), table.shape[1]))
    _add_product(rows, table, out, False)
    return out


def multiply_transposed(rows: Rows, table: np.ndarray) -> np.ndarray:
    """Return the product of the transposed rows and a table."""
    out = np.zeros((rows.columns, table.shape[1]))
    _add_product(rows, table, out, True)
    return out


def _orthonormal(table: np.ndarray) -> np.ndarray:
    """Return the left singular vectors of a table, by descending singular value; vectors whose singular value is near
    zero are omitted. The table is overwritten, because a second table would need as much memory again."""
    rows = DenseRows(read_only(table.ravel(), np.float64), table.shape[1])
    squares, vectors = multiply_transposed(rows, table), np.eye(table.shape[1])
    _diagonalize(squares, vectors)
    values = squares.diagonal()
    order = np.argsort(-values, kind="stable")
    strong = order[values[order] > SMALLEST * values[order[0]]]
    turn = np.ascontiguousarray((vectors[strong] / np.sqrt(values[strong])[:, None]).T)
    for first in range(0, len(table), CHUNK_ROWS):
        chunk = slice(first, first + CHUNK_ROWS)
        part = DenseRows(read_only(table[chunk].ravel(), np.float64), table.shape[1])
        table[chunk, : strong.size] = multiply(part, turn)
    return np.ascontiguousarray(table[:, : strong.size])


def strongest(rows: Rows, wanted: int) -> np.ndarray:
    """Compute a truncated SVD. Return the right singular vectors with the `wanted` largest singular values, as columns;
    fewer if the other singular values are near zero."""
    size = min(wanted + SPARE, length(rows), rows.columns)
    products = size * (length(rows) * entries_per_row(rows) + rows.columns * size)
    seconds = 24 * size**3 * ENTRY_SECONDS + 2 * products * PRODUCT_SECONDS  # an iteration: rotations, and the rest
    with jit.whole_stream("svd", ITERATIONS * seconds):
        projected = draws(0, length(rows) * size).reshape(length(rows), size) - 0.5
        for _ in range(ITERATIONS - 1):  # without names for the large tables, so that each is freed early
            projected = multiply(rows, _orthonormal(multiply_transposed(rows, projected)))
        directions = _orthonormal(multiply_transposed(rows, projected))
        del projected
        return np.ascontiguousarray(directions[:, :wanted])
