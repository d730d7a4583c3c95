# The module, from cargo or from --with-duly-binary. `make clean` and `make` build it again; cargo compiles what has changed.
#
# CARGO_FLAGS may name another profile or target; DULY_BUILT is where cargo then puts the library.
CARGO_FLAGS ?= --release --locked --package $(DULY_CRATE)
# The PHP that the module is for; without it cargo takes the first one in the PATH.
CARGO_ENV ?= PHP=$(PHP_EXECUTABLE) PHP_CONFIG=$(DULY_PHP_CONFIG)
CARGO_TARGET_DIR ?= $(DULY_ROOT)/target
DULY_BUILT ?= $(CARGO_TARGET_DIR)/release

# PHP refuses a module for another of its versions; better here than after the installation.
DULY_LOADS = $(PHP_EXECUTABLE) -n -d display_errors=stderr -d extension=$(phplibdir)/$(DULY_NAME).so \
	-r 'exit(extension_loaded("$(DULY_NAME)") ? 0 : 1);'

$(phplibdir)/$(DULY_NAME).so: $(DULY_BINARY)
	@$(MAKE) --no-print-directory $(DULY_MAKE)
	@$(DULY_LOADS) || { rm -f $@; \
		echo "duly: $(PHP_EXECUTABLE) cannot load this module: it must be built for the same version of PHP (and for thread safety or not)" >&2; \
		exit 1; }

duly-copy:
	cp $(DULY_BINARY) $(phplibdir)/$(DULY_NAME).so

duly-cargo:
	cd $(DULY_ROOT) && $(CARGO_ENV) CARGO_TARGET_DIR=$(CARGO_TARGET_DIR) \
		$(CARGO) build $(CARGO_FLAGS)
	@library=$(DULY_BUILT)/lib`echo $(DULY_CRATE) | tr - _`; for built in $$library.so $$library.dylib; do \
		if test -f $$built; then cp $$built $(phplibdir)/$(DULY_NAME).so; fi; \
	done

.PHONY: duly-copy duly-cargo
