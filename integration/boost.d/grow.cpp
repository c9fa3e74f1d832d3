// A managed segment that is filled, grown twice, attached by other processes and removed.
//
//     grow MIB     MIB mebibytes at first; grows to three times that
//
// Every process writes a vector into the segment and finds what the others wrote. Prints checksums.
#include <boost/interprocess/allocators/allocator.hpp>
#include <boost/interprocess/containers/vector.hpp>
#include <boost/interprocess/managed_shared_memory.hpp>
#include <boost/interprocess/shared_memory_object.hpp>
#include <boost/interprocess/sync/named_mutex.hpp>
#include <boost/interprocess/sync/scoped_lock.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace bi = boost::interprocess;
using Numbers = bi::vector<std::uint64_t, bi::allocator<std::uint64_t, bi::managed_shared_memory::segment_manager>>;

static const char *const name = "grow_segment";
static const char *const lock_name = "grow_lock";

static void write(int number, std::size_t bytes)
{
    bi::managed_shared_memory segment(bi::open_only, name);
    bi::named_mutex mutex(bi::open_only, lock_name);
    bi::scoped_lock<bi::named_mutex> held(mutex);
    auto *numbers = segment.construct<Numbers>(std::to_string(number).c_str())(segment.get_segment_manager());
    numbers->reserve(bytes / sizeof(std::uint64_t));
    for (std::size_t at = 0; at < bytes / sizeof(std::uint64_t); at++)
        numbers->push_back(at * 2654435761u + static_cast<std::uint64_t>(number));
}

static void in_child(int number, std::size_t bytes)
{
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        write(number, bytes);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("writer %d ended with %d\n", number, status);
    if (status)
        std::exit(1);
}

int main(int, char **arguments)
{
    std::size_t bytes = std::strtoul(arguments[1], nullptr, 10) << 20;
    bi::shared_memory_object::remove(name);
    bi::named_mutex::remove(lock_name);
    {
        bi::named_mutex mutex(bi::create_only, lock_name);
        bi::managed_shared_memory segment(bi::create_only, name, bytes);
        std::printf("created %zu\n", segment.get_size());
    }
    in_child(0, bytes - (1 << 20));
    for (int number = 1; number <= 2; number++) {
        std::printf("grown: %d\n", bi::managed_shared_memory::grow(name, bytes));
        in_child(number, bytes - (1 << 20));
    }
    {
        bi::managed_shared_memory segment(bi::open_only, name);
        for (int number = 0; number <= 2; number++) {
            auto found = segment.find<Numbers>(std::to_string(number).c_str());
            std::uint64_t sum = 0;
            for (std::uint64_t value : *found.first)
                sum = sum * 31 + value;
            std::printf("vector %d: %zu numbers, %016llx\n", number, found.first->size(), (unsigned long long)sum);
        }
        std::printf("sane %d, size %zu\n", segment.check_sanity(), segment.get_size());
    }
    std::printf("removed %d %d\n", bi::shared_memory_object::remove(name), bi::named_mutex::remove(lock_name));
}
