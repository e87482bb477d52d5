/* SPDX-License-Identifier: Apache-2.0
 *
 * An exported function that decides where to go and then jumps there with every argument register as it was, so that
 * the target sees the original caller and arguments (variadic ones too).
 *
 *   TAIL_JUMP(name, chooser)   void *chooser(arg1, arg2, arg3, return address) -> target
 */
#ifndef COMMTAP_SHIM_BASE_TAIL_JUMP_H
#define COMMTAP_SHIM_BASE_TAIL_JUMP_H

#if defined(__x86_64__)
#define TAIL_JUMP(name, chooser)                                                                                       \
    __asm__(".pushsection .text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"                            \
            ".cfi_startproc\nendbr64\npush %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\n"                       \
            "mov %rsp,%rbp\n.cfi_def_cfa_register %rbp\nsub $192,%rsp\n"                                               \
            "mov %rdi,0(%rsp)\nmov %rsi,8(%rsp)\nmov %rdx,16(%rsp)\nmov %rcx,24(%rsp)\n"                               \
            "mov %r8,32(%rsp)\nmov %r9,40(%rsp)\nmov %rax,48(%rsp)\n"                                                  \
            "movups %xmm0,64(%rsp)\nmovups %xmm1,80(%rsp)\nmovups %xmm2,96(%rsp)\nmovups %xmm3,112(%rsp)\n"            \
            "movups %xmm4,128(%rsp)\nmovups %xmm5,144(%rsp)\nmovups %xmm6,160(%rsp)\nmovups %xmm7,176(%rsp)\n"         \
            "mov 8(%rbp),%rcx\ncall " #chooser "\nmov %rax,%r11\n"                                                     \
            "mov 0(%rsp),%rdi\nmov 8(%rsp),%rsi\nmov 16(%rsp),%rdx\nmov 24(%rsp),%rcx\n"                               \
            "mov 32(%rsp),%r8\nmov 40(%rsp),%r9\nmov 48(%rsp),%rax\n"                                                  \
            "movups 64(%rsp),%xmm0\nmovups 80(%rsp),%xmm1\nmovups 96(%rsp),%xmm2\nmovups 112(%rsp),%xmm3\n"            \
            "movups 128(%rsp),%xmm4\nmovups 144(%rsp),%xmm5\nmovups 160(%rsp),%xmm6\nmovups 176(%rsp),%xmm7\n"         \
            "leave\n.cfi_def_cfa %rsp,8\njmp *%r11\n.cfi_endproc\n.size " #name ",.-" #name "\n.popsection\n")
#else
#define TAIL_JUMP(name, chooser)                                                                                       \
    __asm__(".pushsection .text\n.globl " #name "\n.type " #name ",%function\n" #name ":\n"                            \
            ".cfi_startproc\nhint #34\nstp x29,x30,[sp,#-224]!\n.cfi_def_cfa_offset 224\n"                             \
            ".cfi_offset x29,-224\n.cfi_offset x30,-216\nmov x29,sp\n"                                                 \
            "stp x0,x1,[sp,#16]\nstp x2,x3,[sp,#32]\nstp x4,x5,[sp,#48]\nstp x6,x7,[sp,#64]\nstr x8,[sp,#80]\n"        \
            "stp q0,q1,[sp,#96]\nstp q2,q3,[sp,#128]\nstp q4,q5,[sp,#160]\nstp q6,q7,[sp,#192]\n"                      \
            "mov x3,x30\nbl " #chooser "\nmov x16,x0\n"                                                                \
            "ldp x0,x1,[sp,#16]\nldp x2,x3,[sp,#32]\nldp x4,x5,[sp,#48]\nldp x6,x7,[sp,#64]\nldr x8,[sp,#80]\n"        \
            "ldp q0,q1,[sp,#96]\nldp q2,q3,[sp,#128]\nldp q4,q5,[sp,#160]\nldp q6,q7,[sp,#192]\n"                      \
            "ldp x29,x30,[sp],#224\n.cfi_def_cfa_offset 0\nbr x16\n.cfi_endproc\n"                                     \
            ".size " #name ",.-" #name "\n.popsection\n")
#endif

#endif
