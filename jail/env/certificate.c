/*
 * PEM by its two lines and base64 (RFC 7468).  The text comes from the broker,
 * but is not trusted.  Of OpenSSL's EVP only the decoder is used, which needs
 * no set-up.
 */

#include <string.h>

#include <openssl/evp.h>

#include "env/certificate.h"


long
certificate_next(const char **pem, uint8_t der[CERTIFICATE_DER_MAX])
{
    int              n, last;
    const char      *p, *end;
    EVP_ENCODE_CTX  *ctx;

    static const char  begin[] = "-----BEGIN CERTIFICATE-----";
    static const char  finish[] = "-----END CERTIFICATE-----";

    p = strstr(*pem, "-----BEGIN ");

    if (p == NULL) {
        return 0;
    }

    end = strstr(p, finish);

    if (strncmp(p, begin, sizeof(begin) - 1) != 0 || end == NULL) {
        return -1;
    }

    p += sizeof(begin) - 1;
    ctx = EVP_ENCODE_CTX_new();

    if (ctx == NULL || (end - p) / 4 * 3 > CERTIFICATE_DER_MAX) {
        EVP_ENCODE_CTX_free(ctx);
        return -1;
    }

    EVP_DecodeInit(ctx);

    if (EVP_DecodeUpdate(ctx, der, &n, (const unsigned char *) p,
                         (int) (end - p))
        == -1
        || EVP_DecodeFinal(ctx, der + n, &last) == -1)
    {
        n = -1;

    } else {
        n += last;
    }

    EVP_ENCODE_CTX_free(ctx);
    *pem = end + sizeof(finish) - 1;

    return n > 0 ? n : -1;
}
