/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that stand for other numbers.
 * Lives here: the hash of tables, which nobody can prepare keys against, and fingerprints, which are the same in every
 * run.
 * Must not live here: tables.
 */
#ifndef COMMTAP_BASE_HASH_H
#define COMMTAP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hash_seed {
    uint64_t key[2];
};

static inline uint64_t hash_rotate(uint64_t value, unsigned bits) {
    return value << bits | value >> (64 - bits);
}

static inline void hash_sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = hash_rotate(v[1], 13) ^ v[0];
    v[3] = hash_rotate(v[3], 16) ^ v[2];
    v[0] = hash_rotate(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = hash_rotate(v[3], 21) ^ v[0];
    v[1] = hash_rotate(v[1], 17) ^ v[2];
    v[2] = hash_rotate(v[2], 32);
}

/* SipHash-1-3 of Aumasson and Bernstein, as CPython and Rust use it for their tables: who does not know the seed finds
 * no keys that collide. */
static inline uint64_t hash_keyed(const struct hash_seed *seed, const void *data, size_t bytes) {
    uint64_t v[4] = {seed->key[0] ^ UINT64_C(0x736f6d6570736575), seed->key[1] ^ UINT64_C(0x646f72616e646f6d),
                     seed->key[0] ^ UINT64_C(0x6c7967656e657261), seed->key[1] ^ UINT64_C(0x7465646279746573)};
    const unsigned char *at = data;
    uint64_t word;
    size_t left = bytes;
    for (; left >= sizeof word; left -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        v[3] ^= word;
        hash_sip_round(v);
        v[0] ^= word;
    }
    word = 0;
    memcpy(&word, at, left);
    word |= (uint64_t)bytes << 56;
    v[3] ^= word;
    hash_sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        hash_sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* A number in which every bit depends on every bit of `value`; different for different values. (SplitMix64's end.) */
static inline uint64_t hash_scramble(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* Takes one more number into a fingerprint, which begins with a constant: of two plain numbers the order would not
 * count. */
static inline uint64_t hash_mix(uint64_t fingerprint, uint64_t value) {
    fingerprint = (fingerprint ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return fingerprint ^ (fingerprint >> 32);
}

/* The same of a text with its end. */
static inline uint64_t hash_mix_text(uint64_t fingerprint, const char *text) {
    for (; *text; text++)
        fingerprint = hash_mix(fingerprint, (unsigned char)*text);
    return hash_mix(fingerprint, 0);
}

#endif
