/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of a pipeline as the user knows them: what --stages says.
 * Lives here: reading a number, a list or a file of stages, and holding it against the job's ranks.
 * Must not live here: stages that the messages tell (stragglers/rank_classes.h), what is done with them.
 */
#ifndef COMMTAP_CLI_STAGE_MAP_H
#define COMMTAP_CLI_STAGE_MAP_H

#include <stdint.h>

#include "analyzer/cli/options.h"
#include "analyzer/cli/session.h"

#define OPTION_STAGES                                                                                                  \
    {                                                                                                                  \
        .name = "stages", .argument = "N|LIST|FILE",                                                                   \
        .doc = "stages of the pipeline: N of as many neighbouring ranks each; or the ranks of each, stages apart by "  \
               "'/', as in 0-3,8/4-7,9; or a file with a line of ranks for each ('#' begins a comment); default: "     \
               "told by its messages"                                                                                  \
    }

/* What is wrong with a map, and where. */
struct stage_map_problem {
    unsigned place; /* number of the stage, or line of the file, that cannot be taken; 0: the map as a whole */
    char text[128];
};

/* Writes the stage of every rank, from 1, into `stage_of`, which has room for `ranks`. `text` names the ranks of one
 * stage after the other with `separator` ('/' or '\n') between them; between '\n', lines without ranks are no stages.
 * Each rank must be in exactly one. Returns 0, -1 with `problem` filled, -2 when memory is short. */
int stage_map_parse(const char *text, char separator, uint32_t *stage_of, int32_t ranks,
                    struct stage_map_problem *problem);

/* Takes --stages, where it is given, in the place of what the job's messages tell. Returns EXIT_FINE, or EXIT_USAGE
 * (EXIT_UNUSABLE for a file that cannot be read, EXIT_OUTPUT when memory is short) after one message. */
int stage_map_take(const struct options *options, struct session *session);

#endif
