/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings_links.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/findings/words.h"

enum { SUSPECTS_TEXT = 600 };

struct host_text {
    char text[80];
};

static double shown(double confidence) {
    return confidence > 0.99 ? 0.99 : confidence;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* "host node7", or where its name is not known "the host of rank 3". */
static struct host_text host_text(const struct common_clock *clock, size_t host) {
    struct host_text text;
    if (clock->hosts[host].name[0])
        snprintf(text.text, sizeof text.text, "host %.64s", clock->hosts[host].name);
    else
        snprintf(text.text, sizeof text.text, "the host of %.40s",
                 dump_text(clock->dumps[clock->hosts[host].first_dump]).text);
    return text;
}

/* " (node7)" */
static struct host_text beside_rank(const struct dump *dump) {
    struct host_text text = {""};
    if (dump->host[0])
        snprintf(text.text, sizeof text.text, " (%.64s)", dump->host);
    return text;
}

/* Between whom, and what lies there: where to look. */
static void say_link_ends(char *text, size_t size, const struct straggler_analysis *analysis,
                          const struct slow_link *link) {
    const struct common_clock *clock = analysis->clock;
    if (link->scope == LINK_RANKS)
        snprintf(text, size, "messages from %s%s to %s%s", dump_text(clock->dumps[link->from]).text,
                 beside_rank(clock->dumps[link->from]).text, dump_text(clock->dumps[link->to]).text,
                 beside_rank(clock->dumps[link->to]).text);
    else if (link->scope == LINK_HOSTS)
        snprintf(text, size, "messages %s %s %s %s", link->both ? "between" : "from", host_text(clock, link->from).text,
                 link->both ? "and" : "to", host_text(clock, link->to).text);
    else
        snprintf(text, size, "messages between %s and all other hosts", host_text(clock, link->from).text);
}

void findings_say_link(char *text, size_t size, const struct straggler_analysis *analysis,
                       const struct straggler *straggler) {
    const struct slow_link *link = &straggler->link;
    char longer[32], ends[320], pairs[64] = "";
    say_seconds(longer, sizeof longer, link->extra_ns);
    say_link_ends(ends, sizeof ends, analysis, link);
    if (link->scope != LINK_RANKS)
        snprintf(pairs, sizeof pairs, " of %" PRIu64 " pairs of ranks", link->pairs);
    snprintf(text, size,
             "%s%s take %.2f times as long as between other pairs (judged on %" PRIu64
             " %s%s; what was waited for took %s longer in all)",
             link->steps ? "of NCCL's transfers over the network, " : "", ends, link->ratio, link->messages,
             link->steps ? "steps of its proxies" : "messages", pairs, longer);
}

void findings_add_link(struct findings *findings, const struct straggler *straggler, const char *evidence,
                       const char *gain, bool claimed) {
    static const char *const advice[] = {
        [LINK_RANKS] = "Neither rank is slow to its other partners: look at what lies between them.",
        [LINK_HOSTS] = "Neither host is slow to its other partners: look at what lies between them.",
        [LINK_HOST] = "The others are not slow among themselves: look at its network adapter, cable and switch port."};
    if (claimed)
        findings_add(findings, FINDING_SLOW_LINK, "%s (confidence %.2f). %s%s", evidence, shown(straggler->confidence),
                     advice[straggler->link.scope], gain);
    else
        findings_add(findings, FINDING_SUSPECT, "%s. That is a slow link, or %s", evidence,
                     straggler->link.alone ? "one of its two ends: they have no other partners to tell by."
                                           : "how the network is laid out: no other way between them shows that they "
                                             "are near each other.");
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void say_suspect(char *text, size_t size, const struct straggler_analysis *analysis,
                        const struct group_suspect *suspect) {
    const struct common_clock *clock = analysis->clock;
    switch (suspect->kind) {
    case SUSPECT_PAIR:
        snprintf(text, size, "what lies between hosts %.64s and %.64s", clock->hosts[suspect->a].name,
                 clock->hosts[suspect->b].name);
        break;
    case SUSPECT_HOST:
        snprintf(text, size, "host %.64s's way to the others", clock->hosts[suspect->a].name);
        break;
    case SUSPECT_INSIDE:
        snprintf(text, size, "the ways inside host %.64s", clock->hosts[suspect->a].name);
        break;
    case SUSPECT_RANK:
        snprintf(text, size, "%s's way to other hosts", dump_text(clock->dumps[suspect->a]).text);
        break;
    case SUSPECT_NEIGHBOUR:
        snprintf(text, size, "%s's way to the others on its host", dump_text(clock->dumps[suspect->a]).text);
        break;
    case SUSPECT_MEMBERS:
        snprintf(text, size, "what lies between its members, for each of them is fast with others");
        break;
    }
}

static void say_suspects(char *text, size_t size, const struct straggler_analysis *analysis,
                         const struct slow_group *group) {
    size_t used = 0;
    for (size_t i = 0; i < group->suspect_count && i < GROUP_SUSPECTS_MOST && used < size; i++) {
        char one[192];
        say_suspect(one, sizeof one, analysis, &group->suspects[i]);
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", one);
    }
    if (group->suspect_count > GROUP_SUSPECTS_MOST && used < size)
        snprintf(text + used, size - used, " and %zu more", group->suspect_count - GROUP_SUSPECTS_MOST);
}

void findings_add_groups(struct findings *findings, const struct straggler_analysis *analysis) {
    for (size_t i = 0; i < analysis->slow_group_count; i++) {
        const struct slow_group *group = &analysis->slow_groups[i];
        char suspects[SUSPECTS_TEXT] = "", longer[32], name[96];
        say_suspects(suspects, sizeof suspects, analysis, group);
        say_seconds(longer, sizeof longer, group->extra_ns);
        say_communicator(name, sizeof name, analysis->directory->communicators[group->communicator].name,
                         analysis->directory->communicators[group->communicator].uid);
        findings_add(findings, group->layout ? FINDING_SUSPECT : FINDING_SLOW_GROUP,
                     "collectives on %zu communicator%s (%s%s) take %.2f times as long as on others like %s, once all "
                     "have come (%" PRIu64 " collectives, %s longer in all; %zu communicators are as fast as usual; "
                     "confidence %.2f). %s: %s.%s",
                     group->slow, group->slow > 1 ? "s" : "", group->slow > 1 ? "first: " : "", name, group->ratio,
                     group->slow > 1 ? "them" : "it", group->collectives, longer, group->cleared_by,
                     shown(group->confidence),
                     group->suspect_count > 1 ? "Ambiguous: it is one of these, which cannot be told apart"
                     : group->slow > 1        ? "They have in common, and no fast one has"
                                              : "What is left to be the reason",
                     suspects, group->layout ? " It may be how the network is laid out." : "");
    }
}
