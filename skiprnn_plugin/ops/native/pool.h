/* Threads that wait for work. They are kept, because starting a thread takes longer than many scans.
 *
 * A thread with work posts one part of it to each worker and does one part itself. Then it does the parts that no
 * worker has begun. So it never waits for a worker to start or to wake up. A worker without work spins first, because
 * the next part of a scan comes within microseconds, and sleeps later.
 */
#ifndef SKIPRNN_POOL_H
#define SKIPRNN_POOL_H

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "layout.h"

namespace {

constexpr std::chrono::microseconds SPIN{100}; /* a thread without work sleeps after this time */

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/* How this thread's floating-point unit rounds, and whether it takes denormal numbers for 0: set_float_mode takes what
 * float_mode returns, from any thread. */
#if defined(__x86_64__)
using FloatMode = unsigned;
constexpr FloatMode FLAGS = 0x3f;  // what has happened so far, not a mode
inline FloatMode float_mode() { return __builtin_ia32_stmxcsr() & ~FLAGS; }
inline void set_float_mode(FloatMode mode) { __builtin_ia32_ldmxcsr(mode); }
#elif defined(__aarch64__)
using FloatMode = uint64_t;
inline FloatMode float_mode() {
    FloatMode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
inline void set_float_mode(FloatMode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
using FloatMode = int;
inline FloatMode float_mode() { return 0; }
inline void set_float_mode(FloatMode) {}
#endif

using Clock = std::chrono::steady_clock;

/* Spins until `done` returns true or SPIN has passed. Returns whether it is done. */
template <class Condition>
bool spin(Condition done) {
    Clock::time_point end = Clock::time_point::max();
    do {
        for (int i = 0; i < 64; i++, relax())  // most waits are so short that they end before the clock is read
            if (done()) return true;
        if (end == Clock::time_point::max()) end = Clock::now() + SPIN;
    } while (Clock::now() < end);
    return false;
}

/* One thread, which runs the parts that are posted to it, one at a time. */
class Worker {
public:
    /* Throws std::system_error if no thread can be started. */
    Worker() { std::thread(&Worker::run, this).detach(); }

    /* The part is run in the calling thread's mode, so that it has the same bits in whichever thread it runs. */
    void post(Part given, const void *given_context, int64_t given_index) {
        mode = float_mode();
        part = given;
        context = given_context;
        index = given_index;
        if (state.exchange(POSTED) != ASLEEP) return;
        std::lock_guard<std::mutex> lock(mutex);  // once this has the lock, the worker is waiting
        awake.notify_one();
    }

    /* Cancels the posted part if the worker has not begun it. Returns whether it was cancelled. */
    bool take_back() {
        int posted = POSTED;
        return state.compare_exchange_strong(posted, IDLE);
    }

    /* Waits until the posted part, which the worker has begun, is done. */
    void wait() {
        const auto done = [&] { return state.load() != RUNNING; };  // the worker may be asleep again
        while (!spin(done)) std::this_thread::yield();
    }

private:
    enum { IDLE, POSTED, RUNNING, ASLEEP };

    alignas(64) std::atomic<int> state{IDLE};  // shares a cache line with the part, and with nothing else
    Part part;
    const void *context;
    int64_t index;
    FloatMode mode;
    alignas(64) std::mutex mutex;
    std::condition_variable awake;

    void run() {
        // Signals are left to the program's threads, but the handler of a fault runs in the thread of the fault.
        sigset_t blocked;
        sigfillset(&blocked);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&blocked, fault);
        pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
        while (true) {
            if (!spin([&] { return state.load() == POSTED; })) sleep();
            int posted = POSTED;
            if (!state.compare_exchange_strong(posted, RUNNING)) continue;
            if (mode != float_mode()) set_float_mode(mode);
            part(context, index);
            state.store(IDLE);
        }
    }

    void sleep() {
        std::unique_lock<std::mutex> lock(mutex);
        int idle = IDLE;
        if (state.compare_exchange_strong(idle, ASLEEP)) awake.wait(lock, [&] { return state.load() != ASLEEP; });
    }
};

class Pool {
public:
    /* The pool of this process. The child of a fork has none of its parent's threads and gets a new pool. The pool is
     * never destroyed, because its threads may wait for work until the process ends. */
    static Pool &instance() {
        static const int handler = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
        (void)handler;
        Pool *pool = current.load();
        if (pool) return *pool;
        Pool *made = new Pool;
        if (current.compare_exchange_strong(pool, made)) return *made;
        delete made;  // it has no thread yet
        return *pool;
    }

    /* Calls part(context, i) once for every i = 0..count-1, on this thread and the workers. It uses this thread alone
     * while another call has the workers. Worker i always gets part i + 1, so its cache may still hold what it read
     * last time. */
    void run(int64_t count, Part part, const void *context) {
        const bool acquired = count > 1 && !busy.exchange(true);
        const int64_t given = acquired ? hire(count - 1) : 0;
        for (int64_t i = 0; i < given; i++) workers[i]->post(part, context, i + 1);
        part(context, 0);
        for (int64_t i = given + 1; i < count; i++) part(context, i);
        for (int64_t i = 0; i < given; i++) {
            if (workers[i]->take_back())
                part(context, i + 1);
            else
                workers[i]->wait();
        }
        if (acquired) busy.store(false);
    }

private:
    static std::atomic<Pool *> current;
    std::atomic<bool> busy{false};
    std::vector<std::unique_ptr<Worker>> workers;

    /* Starts workers until there are `wanted`, if possible. Returns how many of these exist. */
    int64_t hire(int64_t wanted) {
        try {
            workers.reserve(wanted);  // so that push_back cannot fail and lose a worker
            while ((int64_t)workers.size() < wanted) workers.push_back(std::make_unique<Worker>());
        } catch (const std::exception &) {  // no thread can be started, or there is no memory
        }
        return std::min<int64_t>(wanted, workers.size());
    }
};

std::atomic<Pool *> Pool::current{nullptr};

}  // namespace

#endif
