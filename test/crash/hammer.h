/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hammer program calls, as formulas: every record it causes can be checked from itself.
 * Lives here: the encoding shared by hammer.c (which calls MPI) and crash.c (which reads the dump).
 * Must not live here: MPI, the dump format.
 *
 * Thread T uses a communicator named HAMMER_NAME "T". Its iteration i makes one Allreduce, which the library numbers
 * i, and one message to itself on tag i % HAMMER_TAGS, the (i / HAMMER_TAGS)th there.
 */
#ifndef COMMTAP_TEST_HAMMER_H
#define COMMTAP_TEST_HAMMER_H

#define HAMMER_THREADS 2
#define HAMMER_NAME    "hammer "
#define HAMMER_TAGS    16
#define HAMMER_SIZES   53 /* fewer than EXACT_SIZES: every size has a row of its own */

#define HAMMER_REDUCE_COUNT(i)         (1 + (i) % HAMMER_SIZES)   /* doubles */
#define HAMMER_MESSAGE_COUNT(i)        (1 + (i)*7 % HAMMER_SIZES) /* doubles */
#define HAMMER_TAG(i)                  ((i) % HAMMER_TAGS)
#define HAMMER_ITERATION(ordinal, tag) ((ordinal)*HAMMER_TAGS + (tag))

#endif
