/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the page that are the same for every job (page_file.h), as bytes.
 */
    .section .rodata
    .globl page_head, page_head_end, page_tail, page_tail_end
page_head:
    .incbin "head.html"
page_head_end:
page_tail:
    .incbin "tail.html"
page_tail_end:
    .section .note.GNU-stack, "", %progbits
