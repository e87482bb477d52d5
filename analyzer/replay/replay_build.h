/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the replay share while it is made.
 * Lives here: nodes and links as gathered, worker by worker, who answers whom (replay_roles.c), and the stages from
 * there: who hands data on (replay_relays.c), one graph (replay_graph.c), an order in which it can be gone through
 * (replay_order.c), what launches that lay ready needed (replay_behind.c), what is left of each node once all it needs
 * is there (replay_tails.c). Must not live here: anything that is left when the replay is made (replay.h).
 */
#ifndef COMMTAP_REPLAY_REPLAY_BUILD_H
#define COMMTAP_REPLAY_REPLAY_BUILD_H

#include "analyzer/base/cache_lines.h"
#include "analyzer/base/hash_table.h"
#include "analyzer/replay/replay.h"

enum { REPLAY_SIZES = 66 }; /* classes of bytes: 0, powers of two, unknown */

/* How a member of a link takes part. */
enum { GIVES = 1, TAKES = 2 };

struct member {
    int64_t enter, leave; /* as matched; afterwards the nodes: */
    uint32_t post, wait;  /* entered there, ended there; NOWHERE: nowhere */
    uint32_t dump;
    uint16_t call;
    uint8_t parts;
};

struct replay_link {
    uint32_t first, count;       /* of the worker's members */
    uint32_t from, to;           /* dumps, of a message */
    uint16_t call;               /* of a message's send, of a collective with a root */
    uint8_t size;                /* its class */
    bool device;                 /* it went from GPU to GPU */
    bool blocks;                 /* a send that may have waited for its receiver */
    bool by_sender, by_receiver; /* over as soon as this end was back in the library */
    bool returns;                /* an MPI_Win_complete that may need its target back in the library: both of them */
    bool has_root;               /* a blocking collective with a root, all of whose members are here */
    union {
        int64_t released; /* of a message, as in struct match_message */
        struct {
            uint32_t communicator, root; /* the root's place among the members */
        } rooted;
    };
};

/* Of the sends of one call and size that were there before their receives. */
struct sends {
    uint32_t waited, left;
};

/* What one worker has gathered. */
struct replay_gathered {
    ON_OWN_LINES struct replay_link *links;
    size_t link_count, link_room;
    struct member *members;
    size_t member_count, member_room;
    struct sends *sends; /* per call and size; NULL before the first message */
    bool no_memory;
};

/* What goes on on one lane. */
struct open_flow {
    size_t last; /* place of the node before + 1; 0: none yet */
    uint32_t flow, stretch;
    uint32_t polled_by; /* lane + 1 whose polls that node is; 0: none's */
};

/* What tells in which role messages are sent and received (replay_roles.c). All zero to begin with. */
struct replay_roles {
    struct hash_table partners; /* how much went to them, and came */
    struct hash_table posted;   /* by the numbers of launches that have not run yet, or have */
};

/* One dump's nodes. */
struct dump_nodes {
    ON_OWN_LINES struct replay_node *nodes;
    size_t count, room;
    struct open_flow *open; /* per lane */
    uint32_t *stretch_of;   /* per flow */
    size_t flow_count;
    uint32_t segment;
    uint32_t posted_op; /* the last call that enqueued anything on a GPU, and when */
    int64_t posted_ns;
    struct replay_roles roles;
};

struct replay_build {
    const struct match_directory *directory;
    const struct covered_time *covered;
    const struct cut *cuts; /* per dump */
    int64_t from_ns;
    bool end_only;
    struct dump_nodes *histories;
    struct replay_gathered gathered[MATCH_WORKERS_MAX];
    unsigned workers;
    struct sends completes; /* whose target was away: that were over when it was back, and before */
    size_t *near;           /* per dump: the node that was found last */
};

/* ---- gathered ---------------------------------------------------------------------------------------------------- */

/* Whether what two ranks entered, common ns, lies in one stretch of the covered time. */
bool replay_in_one_stretch(const struct replay_build *build, int64_t one, int64_t other);

/* Another member of the link that is being added, as matched or as another link has it; then the link itself, whose
 * `first` is where its members began. Memory that is short shows in `no_memory`. */
void replay_add_link_member(struct replay_gathered *g, uint32_t dump, const struct match_member *member, int parts);
void replay_add_member(struct replay_gathered *g, const struct member *member, int parts);
void replay_add_link(struct replay_gathered *g, struct replay_link link);

/* ---- roles (replay_roles.c) -----------------------------------------------------------------------------------------
 */

/* The role in which the record's rank sends or receives that message, one after the other in the order of time: of
 * calls, which is the same for all that run the same program, also where a GPU runs them in another one. Returns false
 * when memory is short. */
bool replay_find_role(struct replay_roles *roles, const struct match_record *item, enum replay_role *role);
void replay_roles_free(struct replay_roles *roles);

/* ---- stages: each returns false when memory is short ----------------------------------------------------------------
 */

/* All dumps' nodes as one array, and the spans of their flows; then who needs whom among them (replay_graph.c). */
bool replay_join_nodes(struct replay *replay, struct replay_build *build);
bool replay_join_links(struct replay *replay, struct replay_build *build);

/* Adds links for those who are needed in collectives with a root though these do not say so (replay_relays.c). */
bool replay_find_relays(struct replay_build *build);

/* Where the launches of a flow on which a GPU's work is on record come, one after the other (replay_launches.c). */
bool replay_place_launches(struct replay *replay);

/* Own work before every node, and an order that respects every link (replay_order.c). */
bool replay_order(struct replay *replay);

/* Which of its GPU's pieces of work a collective needs that began as soon as its stream was free: while it lay ready
 * the GPU worked on beside what was on the stream, on a rank that waits more than on others. It needs no more than had
 * ended before it on any rank with as many pieces (replay_behind.c). */
bool replay_find_behind(struct replay *replay);

/* Tails of all nodes, also of Waits as they would be if entered late (replay_tails.c). */
bool replay_measure_tails(struct replay *replay);

#endif
