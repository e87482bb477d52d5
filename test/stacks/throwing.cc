// SPDX-License-Identifier: Apache-2.0
//
// Steps that throw, catch, and clean up while an exception passes.
// Must not live here: what a stack should look like.
#include <stdexcept>

#include "test/stacks/steps.h"

namespace {

struct cleaner {
    ~cleaner() { look(); }
};

__attribute__((noinline)) long thrower(int depth) {
    cleaner c;
    look();
    if (draw(3) == 0)
        throw std::runtime_error("on purpose");
    return go_on(depth);
}

__attribute__((noinline)) long catcher(int depth) {
    try {
        return thrower(depth) + 1;
    } catch (const std::exception &) {
        look();
        return 2;
    }
}

__attribute__((noinline)) long rethrower(int depth) {
    try {
        try {
            return thrower(depth);
        } catch (const std::exception &) {
            look();
            throw;
        }
    } catch (...) {
        return go_on(depth - 1);
    }
}

} // namespace

extern "C" {
extern const step_function throwing_steps[];
const step_function throwing_steps[] = {catcher, rethrower, nullptr};
}
