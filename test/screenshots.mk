# SPDX-License-Identifier: Apache-2.0
#
#   make screenshots   pictures of every view of commtap html into build/screenshots, those of the README into doc/pictures

.PHONY: screenshots
screenshots: all $(PLAY)
	$(PYTHON) test/screenshots.py $(BUILD)/screenshots doc/pictures
	@ls $(BUILD)/screenshots doc/pictures
