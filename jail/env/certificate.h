/*
 * The little that the launcher must know of certificates, without the
 * millisecond that OpenSSL's own set-up would add to every start.  Pure: no
 * files, no memory of its own.
 */

#ifndef JAIL_CERTIFICATE_H
#define JAIL_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


#define CERTIFICATE_DER_MAX   16384     /* bytes of one certificate */
#define CERTIFICATE_HASH_LEN  8         /* hex digits */


/*
 * Decodes the next certificate of a PEM text and moves *pem behind it.  Its
 * length; 0 at the end of the text, -1 when what follows is none.
 */
long certificate_next(const char **pem, uint8_t der[CERTIFICATE_DER_MAX]);

/*
 * The hash of the subject's name by which OpenSSL finds a certificate in a
 * directory ("openssl x509 -subject_hash").  False for a name whose form is
 * not one of the usual ones (several attributes in one part, text of two or
 * four bytes a character), or that is no name at all.
 */
bool certificate_hash(const uint8_t *der, size_t len,
    char hash[CERTIFICATE_HASH_LEN + 1]);


#endif /* JAIL_CERTIFICATE_H */
