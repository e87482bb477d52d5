/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for people.
 * Lives here: how one number is written.
 * Must not live here: tables.
 */
#include "analyzer/render/units.h"

#include <stdio.h>
#include <string.h>

void units_size(char text[UNITS_TEXT], uint64_t bytes) {
    static const char *const names[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000) {
        snprintf(text, UNITS_TEXT, "%u B", (unsigned)bytes);
        return;
    }
    double value = (double)bytes / 1e3;
    size_t unit = 0;
    for (; value >= 999.5; unit++) /* what would round to 1000 is 1.00 of the next */
        value /= 1e3;
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(text, UNITS_TEXT, "%.*f %s", decimals, value, names[unit]);
}

void units_deepspeed_size(char text[UNITS_TEXT], uint64_t bytes) {
    static const char *const names[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes == 0) {
        strcpy(text, "0B");
        return;
    }
    unsigned power = (63 - (unsigned)__builtin_clzll(bytes)) / 10;
    char number[24];
    snprintf(number, sizeof number, "%.2f", (double)bytes / (double)(UINT64_C(1) << (10 * power)));
    size_t length = strlen(number);
    if (number[length - 1] == '0')
        number[length - 1] = '\0';
    snprintf(text, UNITS_TEXT, "%s %s", number, names[power]);
}

void units_time(char text[UNITS_TEXT], uint64_t ns) {
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    if (ns < 1000) {
        snprintf(text, UNITS_TEXT, "%u ns", (unsigned)ns);
        return;
    }
    size_t unit = ns < 999500 ? 0 : ns < 999500000 ? 1 : 2; /* what would round to 1000 is 1.00 of the next */
    double value = (double)ns / units[unit].ns;
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(text, UNITS_TEXT, "%.*f %s", decimals, value, units[unit].name);
}

void units_number(char text[UNITS_TEXT], double number) {
    static const char *const names[] = {"", " k", " M", " G", " T"};
    size_t unit = 0;
    for (; number >= 999.5 && unit + 1 < sizeof names / sizeof *names; unit++)
        number /= 1e3;
    int decimals = number <= 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
    snprintf(text, UNITS_TEXT, "%.*f%s", decimals, number < 0 ? 0 : number < 1e9 ? number : 1e9, names[unit]);
}

void units_rate(char text[UNITS_TEXT], double bytes_per_s) {
    if (bytes_per_s >= 1e8)
        snprintf(text, UNITS_TEXT, "%.2f GB/s", bytes_per_s / 1e9);
    else if (bytes_per_s >= 1e5)
        snprintf(text, UNITS_TEXT, "%.2f MB/s", bytes_per_s / 1e6);
    else
        snprintf(text, UNITS_TEXT, "%.2f kB/s", bytes_per_s / 1e3);
}

double seconds_of(int64_t ns) {
    return (double)ns / 1e9;
}
