/* Threads that wait for work: kept, as starting one takes longer than many a scan.
 *
 * Who has work posts a part of it to each worker and does one itself, then those that no worker has begun: nobody waits
 * for a worker to wake up, or for one to be had. A worker that has nothing to do spins, as the next part of a scan
 * comes after some microseconds, and then sleeps.
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

constexpr std::chrono::microseconds SPIN{100}; /* at most, before a thread sleeps */

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

using Clock = std::chrono::steady_clock;

/* Spins until `done` or the time is over; returns whether it is done. */
template <class Condition>
bool spin(Condition done) {
    Clock::time_point end = Clock::time_point::max();
    do {
        for (int i = 0; i < 64; i++, relax())  // short waits, which are the usual ones, ask for no time
            if (done()) return true;
        if (end == Clock::time_point::max()) end = Clock::now() + SPIN;
    } while (Clock::now() < end);
    return false;
}

/* One thread, which runs the parts that it is given, one at a time. */
class Worker {
public:
    /* Raises std::system_error if there is no thread to be had. */
    Worker() { std::thread(&Worker::run, this).detach(); }

    void post(Part given, const void *given_of, int64_t given_index) {
        part = given;
        of = given_of;
        index = given_index;
        if (state.exchange(POSTED) != ASLEEP) return;
        std::lock_guard<std::mutex> lock(mutex);  // it waits by now
        awake.notify_one();
    }

    /* Whether the part that was posted had not been begun; now it will not be. */
    bool take_back() {
        int posted = POSTED;
        return state.compare_exchange_strong(posted, IDLE);
    }

    /* Until the part that was posted, and begun, is done. */
    void wait() {
        const auto done = [&] { return state.load() != RUNNING; };  // it may sleep again
        while (!spin(done)) std::this_thread::yield();
    }

private:
    enum { IDLE, POSTED, RUNNING, ASLEEP };

    alignas(64) std::atomic<int> state{IDLE};  // on a line of its own with the part
    Part part;
    const void *of;
    int64_t index;
    alignas(64) std::mutex mutex;
    std::condition_variable awake;

    void run() {
        sigset_t blocked;  // signals are for the program's own threads, but a fault's handler runs where the fault is
        sigfillset(&blocked);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&blocked, fault);
        pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
        while (true) {
            if (!spin([&] { return state.load() == POSTED; })) sleep();
            int posted = POSTED;
            if (!state.compare_exchange_strong(posted, RUNNING)) continue;
            part(of, index);
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
    /* The process's own. A fork has none of its parent's threads, and begins anew. It is never destroyed, as its
     * threads may wait for work until the process ends. */
    static Pool &own() {
        static const int handler = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
        (void)handler;
        Pool *pool = current.load();
        if (pool) return *pool;
        Pool *made = new Pool;
        if (current.compare_exchange_strong(pool, made)) return *made;
        delete made;  // it has no threads yet
        return *pool;
    }

    /* Calls part(of, i) for i = 0..count-1, each once, on this thread and the workers; on this thread alone while the
     * workers are somebody else's. Worker i has part i + 1, and so what it read the last time may be in its cache. */
    void run(int64_t count, Part part, const void *of) {
        const bool mine = count > 1 && !busy.exchange(true);
        const int64_t given = mine ? hire(count - 1) : 0;
        for (int64_t i = 0; i < given; i++) workers[i]->post(part, of, i + 1);
        part(of, 0);
        for (int64_t i = given + 1; i < count; i++) part(of, i);
        for (int64_t i = 0; i < given; i++) {
            if (workers[i]->take_back())
                part(of, i + 1);
            else
                workers[i]->wait();
        }
        if (mine) busy.store(false);
    }

private:
    static std::atomic<Pool *> current;
    std::atomic<bool> busy{false};
    std::vector<std::unique_ptr<Worker>> workers;

    /* How many workers there are, of those wanted. */
    int64_t hire(int64_t wanted) {
        try {
            workers.reserve(wanted);  // a worker that is there is never lost
            while ((int64_t)workers.size() < wanted) workers.push_back(std::make_unique<Worker>());
        } catch (const std::exception &) {  // no more threads, or no memory, to be had
        }
        return std::min<int64_t>(wanted, workers.size());
    }
};

std::atomic<Pool *> Pool::current{nullptr};

}  // namespace

#endif
