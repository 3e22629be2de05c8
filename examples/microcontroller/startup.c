/* What happens before main() on the simulated board: vectors, memory, floating point. */
#include <stdint.h>
#include <string.h>

extern uint32_t data_source[], data_begin[], data_end[], bss_begin[], bss_end[], stack_top[];
int main(void);
void exit(int status);
void initialise_monitor_handles(void);
void reset(void);

static void stop(void) {
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const struct {
    const uint32_t *stack;
    void (*handlers[5])(void);
} vectors = {stack_top, {reset, stop, stop, stop, stop}};

void reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* allow the floating-point unit */
    memcpy(data_begin, data_source, (size_t)((char *)data_end - (char *)data_begin));
    memset(bss_begin, 0, (size_t)((char *)bss_end - (char *)bss_begin));
    initialise_monitor_handles(); /* printf and files through the simulator */
    exit(main());
}
