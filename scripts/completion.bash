# SPDX-License-Identifier: Apache-2.0
#
# Completion of commtap's commands and options in bash: source this file (make install puts the script it stands for
# where bash-completion looks). The words come from the program itself, so that they are always its own.
if command -v commtap >/dev/null 2>&1; then
    source <(commtap --completion)
fi
