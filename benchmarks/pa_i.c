/* PA-I with the query rule `symmetric` over rows in order: the loop that a C programmer writes who wants it fast.
   Four sums in a margin, as without them the processor waits for each addition. counts is [pushed][y + 1][asked]. */
#include <math.h>
#include <stdint.h>

static inline double draw(uint64_t seed, uint64_t t) { /* splitmix64 */
    uint64_t z = seed + (t + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return ((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

#define LOOP(NAME, J, START, STOP)                                                                                     \
    int64_t NAME(const int64_t *indptr, const uint32_t *indices, const double *values, int64_t columns,                \
                 const int8_t *y, const int64_t *order, int64_t rounds, uint64_t seed, double C, double delta,         \
                 double *restrict w, int64_t *restrict counts, int64_t *restrict questions) {                          \
        int64_t queried = 0;                                                                                           \
        for (int64_t t = 0; t < rounds; t++) {                                                                         \
            const int64_t i = order[t], start = START, stop = STOP;                                                    \
            double a = 0, b = 0, c = 0, d = 0;                                                                         \
            int64_t k = start;                                                                                         \
            for (; k + 3 < stop; k += 4) {                                                                             \
                a += w[J(k)] * values[k];                                                                              \
                b += w[J(k + 1)] * values[k + 1];                                                                      \
                c += w[J(k + 2)] * values[k + 2];                                                                      \
                d += w[J(k + 3)] * values[k + 3];                                                                      \
            }                                                                                                          \
            for (; k < stop; k++) a += w[J(k)] * values[k];                                                            \
            const double p = (a + b) + (c + d);                                                                        \
            const int asked = draw(seed, t) < delta / (delta + fabs(p));                                               \
            counts[6 * (p >= 0) + 2 * (y[i] + 1) + asked]++;                                                           \
            if (!asked) continue;                                                                                      \
            questions[queried++] = t;                                                                                  \
            const double loss = 1 - y[i] * p;                                                                          \
            if (loss <= 0) continue;                                                                                   \
            double xx = 0;                                                                                             \
            for (k = start; k < stop; k++) xx += values[k] * values[k];                                                \
            const double step = fmin(C, loss / xx) * y[i];                                                             \
            for (k = start; k < stop; k++) w[J(k)] += step * values[k];                                                \
        }                                                                                                              \
        return queried;                                                                                                \
    }

#define COLUMN(k) ((k) - start)
#define INDEX(k) indices[k]
LOOP(dense, COLUMN, i * columns, start + columns)
LOOP(sparse, INDEX, indptr[i], indptr[i + 1])
