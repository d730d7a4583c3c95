dnl Builds the extension with cargo, or takes a binary that was built elsewhere:
dnl
dnl     phpize && ./configure [--with-duly-binary=FILE] && make && make install
dnl
dnl There is no C here, so PHP_NEW_EXTENSION has nothing to do: Makefile.frag makes the module. The folder ext-console has the same two
dnl files, because what unpacks an archive may not know links; which extension it is, composer.json says.

PHP_ARG_ENABLE([duly],
  [whether to enable duly],
  [AS_HELP_STRING([--enable-duly], [Enable this extension of duly])],
  [yes])

PHP_ARG_WITH([duly-binary],
  [for a binary of duly],
  [AS_HELP_STRING([--with-duly-binary=FILE], [Install this module and compile nothing: no Rust is needed])],
  [no],
  [no])

if test "$PHP_DULY" != "no"; then
  DULY_EXT=`cd $srcdir && pwd`
  DULY_ROOT=`cd $srcdir/../.. && pwd`
  DULY_NAME=`sed -n 's/.*"extension-name": "\(.*\)".*/\1/p' "$DULY_EXT/composer.json"`
  case "$DULY_NAME" in
  duly) DULY_CRATE=duly-php ;;
  duly_console) DULY_CRATE=duly-php-console ;;
  *) AC_MSG_ERROR([$DULY_EXT/composer.json names no extension of duly]) ;;
  esac
  if test "$PHP_DULY_BINARY" != "no"; then
    if test ! -f "$PHP_DULY_BINARY"; then
      AC_MSG_ERROR([--with-duly-binary: there is no file $PHP_DULY_BINARY; give the path of a $DULY_NAME.so for this PHP])
    fi
    DULY_BINARY=`cd \`dirname "$PHP_DULY_BINARY"\` && pwd`/`basename "$PHP_DULY_BINARY"`
    DULY_MAKE=duly-copy
  else
    AC_PATH_PROG([CARGO], [cargo], [no], [$PATH:$HOME/.cargo/bin])
    if test "$CARGO" = "no"; then
      AC_MSG_ERROR([cargo is missing: get Rust from https://rustup.rs, or give a finished module with --with-duly-binary=FILE])
    fi
    AC_CHECK_PROG([CLANG], [clang], [yes], [no])
    if test "$CLANG" = "no"; then
      AC_MSG_WARN([clang is missing: the build reads headers of PHP with libclang; Debian: apt-get install clang libclang-dev])
    fi
    if test ! -f "$DULY_ROOT/Cargo.toml"; then
      AC_MSG_ERROR([$DULY_ROOT/Cargo.toml is missing: this folder belongs into a checkout or a source archive of duly])
    fi
    DULY_BINARY=
    DULY_MAKE=duly-cargo
  fi
  dnl The build of ext-php-rs does not look into the PATH.
  DULY_PHP_CONFIG=`command -v "$PHP_CONFIG"`
  PHP_SUBST([CARGO])
  PHP_SUBST([DULY_PHP_CONFIG])
  PHP_SUBST([DULY_ROOT])
  PHP_SUBST([DULY_NAME])
  PHP_SUBST([DULY_CRATE])
  PHP_SUBST([DULY_BINARY])
  PHP_SUBST([DULY_MAKE])
  PHP_MODULES="$PHP_MODULES \$(phplibdir)/$DULY_NAME.so"
  PHP_ADD_MAKEFILE_FRAGMENT([$DULY_EXT/Makefile.frag], [$DULY_EXT], [$DULY_EXT])
fi
