/* Ranks on one machine: a ring of large messages, one-sided windows of shared memory, and an all-to-all.
 *
 *     ring MESSAGE_MIB WINDOW_MIB
 *
 * MESSAGE_MIB is what goes round the ring in one message, WINDOW_MIB what each rank allocates by
 * MPI_Win_allocate_shared and by MPI_Win_allocate. Rank 0 prints checksums of what arrived; they do not
 * depend on where the memory lies. Any wrong byte ends the program with status 3, a refused window with 4.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

static int rank, ranks;

/* The word at position `at` of what rank `from` writes in round `round`. */
static uint64_t word(int from, int round, size_t at)
{
    uint64_t x = (uint64_t)at * 0x9e3779b97f4a7c15u + (uint64_t)(from * 1000 + round) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    return x * 0x94d049bb133111ebu;
}

static void fill(uint64_t *words, size_t count, int from, int round)
{
    for (size_t at = 0; at < count; at++)
        words[at] = word(from, round, at);
}

static uint64_t verify(const uint64_t *words, size_t count, int from, int round, const char *what)
{
    uint64_t sum = 0;
    for (size_t at = 0; at < count; at++) {
        if (words[at] != word(from, round, at)) {
            fprintf(stderr, "%s: rank %d got a wrong word at %zu from rank %d\n", what, rank, at, from);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        sum = sum * 31 + words[at];
    }
    return sum;
}

/* The same number whatever the order of ranks. */
static void report(const char *what, uint64_t sum)
{
    uint64_t total = 0;
    MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %016llx\n", what, (unsigned long long)total);
}

static void ring(size_t bytes)
{
    size_t count = bytes / sizeof(uint64_t);
    uint64_t *out = malloc(bytes), *in = malloc(bytes), sum = 0;
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    for (int round = 0; round < 4; round++) {
        fill(out, count, rank, round);
        MPI_Sendrecv(out, (int)count, MPI_UINT64_T, right, round, in, (int)count, MPI_UINT64_T, left, round,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += verify(in, count, left, round, "ring");
    }
    free(out);
    free(in);
    report("ring", sum);
}

static void exchange(size_t bytes)
{
    size_t count = bytes / sizeof(uint64_t) / (size_t)ranks;
    uint64_t *out = malloc(bytes), *in = malloc(bytes), sum = 0;
    for (int to = 0; to < ranks; to++)
        fill(out + (size_t)to * count, count, rank, to);
    MPI_Alltoall(out, (int)count, MPI_UINT64_T, in, (int)count, MPI_UINT64_T, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++)
        sum += verify(in + (size_t)from * count, count, from, rank, "all to all");
    free(out);
    free(in);
    report("all to all", sum);
}

static void shared(size_t bytes)
{
    MPI_Comm node;
    MPI_Win window;
    uint64_t *own, *theirs;
    MPI_Aint length;
    int unit;
    size_t count = bytes / sizeof(uint64_t);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    /* Errors are returned here, and told by this program: Open MPI 4.1 loses its own words about a full /dev/shm
     * now and then (orte_show_help answers "Data unpack had inadequate space" instead). */
    MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN);
    int error = MPI_Win_allocate_shared((MPI_Aint)bytes, sizeof(uint64_t), MPI_INFO_NULL, node, &own, &window);
    if (error != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length = 0;
        MPI_Error_string(error, text, &length);
        fprintf(stderr, "shared window: rank %d was refused %zu bytes: %.*s\n", rank, bytes, length, text);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    fill(own, count, rank, 7);
    MPI_Win_fence(0, window);
    MPI_Win_shared_query(window, (rank + 1) % ranks, &length, &unit, &theirs);
    uint64_t sum = verify(theirs, count, (rank + 1) % ranks, 7, "shared window");
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
    report("shared window", sum);
}

static void one_sided(size_t bytes)
{
    MPI_Win window;
    uint64_t *own;
    size_t count = bytes / sizeof(uint64_t);
    uint64_t *out = malloc(bytes);
    MPI_Win_allocate((MPI_Aint)bytes, sizeof(uint64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
    fill(out, count, rank, 9);
    MPI_Win_fence(0, window);
    MPI_Put(out, (int)count, MPI_UINT64_T, (rank + 1) % ranks, 0, (int)count, MPI_UINT64_T, window);
    MPI_Win_fence(0, window);
    uint64_t sum = verify(own, count, (rank + ranks - 1) % ranks, 9, "put");
    MPI_Win_free(&window);
    free(out);
    report("put", sum);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    size_t message = (size_t)atol(argv[1]) * MIB, window = (size_t)atol(argv[2]) * MIB;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    ring(message);
    exchange(message);
    shared(window);
    one_sided(window);
    MPI_Finalize();
    return 0;
}
