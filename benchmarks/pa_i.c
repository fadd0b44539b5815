/* PA-I with the query rule `symmetric` over rows in order: the loop that a C programmer writes who wants it fast.
   Four sums in a margin, as without them the processor waits for each addition. counts is [pushed][y + 1][asked].
   -DSPARSE: rows are CSR. -DAHEAD=n: ask the memory for the row of n rounds ahead, which pays through a permutation. */
#include <math.h>
#include <stdint.h>

#ifdef SPARSE
#define START(i) indptr[i]
#define COLUMN(k) indices[k]
#else
#define START(i) ((i) * columns)
#define COLUMN(k) ((k) - start)
#endif

static inline double draw(uint64_t seed, uint64_t t) { /* splitmix64 */
    uint64_t z = seed + (t + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return ((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

int64_t replay(const int64_t *indptr, const uint32_t *indices, const double *values, int64_t columns, const int8_t *y,
               const int64_t *order, int64_t rounds, uint64_t seed, double C, double delta, double *restrict w,
               int64_t *restrict counts, int64_t *restrict questions) {
    int64_t queried = 0;
    for (int64_t t = 0; t < rounds; t++) {
#ifdef AHEAD
        if (t + AHEAD < rounds) {
            const int64_t next = order[t + AHEAD];
            for (int64_t k = START(next); k < START(next + 1); k += 8) __builtin_prefetch(values + k);
            for (int64_t k = START(next); indices && k < START(next + 1); k += 16) __builtin_prefetch(indices + k);
        }
#endif
        const int64_t i = order[t], start = START(i), stop = START(i + 1);
        double a = 0, b = 0, c = 0, d = 0;
        int64_t k = start;
        for (; k + 3 < stop; k += 4) {
            a += w[COLUMN(k)] * values[k];
            b += w[COLUMN(k + 1)] * values[k + 1];
            c += w[COLUMN(k + 2)] * values[k + 2];
            d += w[COLUMN(k + 3)] * values[k + 3];
        }
        for (; k < stop; k++) a += w[COLUMN(k)] * values[k];
        const double p = (a + b) + (c + d);
        const int asked = draw(seed, t) < delta / (delta + fabs(p));
        counts[6 * (p >= 0) + 2 * (y[i] + 1) + asked]++;
        if (!asked) continue;
        questions[queried++] = t;
        const double loss = 1 - y[i] * p;
        if (loss <= 0) continue;
        double xx = 0;
        for (k = start; k < stop; k++) xx += values[k] * values[k];
        const double step = fmin(C, loss / xx) * y[i];
        for (k = start; k < stop; k++) w[COLUMN(k)] += step * values[k];
    }
    return queried;
}
