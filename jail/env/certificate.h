/*
 * The certificate reader of the launcher, without the
 * millisecond that OpenSSL's own set-up would add to every start.  Pure: no
 * files, no memory of its own.
 */

#pragma once

#include <stdint.h>


#define CERTIFICATE_DER_MAX  16384     /* bytes of one certificate */


/*
 * Decodes the next certificate of a PEM text and moves *pem behind it.  Its
 * length; 0 at the end of the text, -1 if the next block is not a certificate.
 */
long certificate_next(const char **pem, uint8_t der[CERTIFICATE_DER_MAX]);
