/*
 * An answer is hostile bytes: every step has a bound, and a compression
 * pointer is followed only backwards, so that there is no way round.  Only
 * records of the name that was asked for count, and of what it is an alias of.
 */

#include <string.h>

#include "parse/dns.h"
#include "parse/dns_reply.h"


#define DNS_HEADER         12
#define DNS_RECORD         10           /* of a record, after its name */
#define DNS_LABEL_MAX      63
#define DNS_POINTERS_MAX   127          /* in a name: as many as labels */

#define DNS_QR             0x8000       /* an answer */
#define DNS_OPCODE         0x7800
#define DNS_TC             0x0200       /* cut */
#define DNS_RD             0x0100       /* the server shall ask others */
#define DNS_RCODE          0x000f

#define DNS_NXDOMAIN       3
#define DNS_REFUSAL        5

#define DNS_TYPE_CNAME     5
#define DNS_CLASS_IN       1

#define DNS_ALIASES_MAX    32           /* in one answer */
#define DNS_WALKS_MAX      4            /* over its records, out of order */


typedef struct {
    const unsigned char  *p;            /* the message */
    size_t                n;
    size_t                at;
} dns_message_t;


typedef struct {
    dns_name_t            owner;
    unsigned              type;
    unsigned              class;
    uint32_t              ttl;
    size_t                data;         /* where it is in the message */
    size_t                data_len;
} dns_record_t;


static dns_reply_kind_t dns_reply_records(dns_message_t *m, unsigned count,
    unsigned type, dns_name_t *name, dns_reply_t *reply);
static int dns_reply_record(dns_message_t *m, dns_record_t *record);
static int dns_reply_name(dns_message_t *m, dns_name_t *name);
static void dns_reply_add(dns_reply_t *reply, unsigned type,
    const unsigned char *bytes);
static bool dns_reply_is_asked(const unsigned char *p,
    const dns_question_t *question);
static bool dns_name_same(const dns_name_t *a, const dns_name_t *b);
static unsigned char dns_lower(unsigned char c);
static unsigned dns_read16(const unsigned char *p);


int
dns_name_set(dns_name_t *name, const char *text, size_t n)
{
    size_t          i, label;
    unsigned char  *p;

    /* a byte before each label, and the root's */

    if (n == 0 || n > DNS_WIRE_MAX - 2) {
        return -1;
    }

    p = name->wire;

    for (i = 0; i < n; i += label + 1) {

        label = 0;

        while (i + label < n && text[i + label] != '.') {
            p[1 + label] = dns_lower((unsigned char) text[i + label]);
            label++;
        }

        if (label == 0 || label > DNS_LABEL_MAX) {
            return -1;
        }

        *p = (unsigned char) label;
        p += 1 + label;
    }

    *p++ = 0;
    name->len = (size_t) (p - name->wire);

    return 0;
}


void
dns_question_write(dns_question_t *question, uint16_t id,
    const dns_name_t *name, uint16_t type)
{
    unsigned char  *p;

    const unsigned char  header[DNS_HEADER] = {
        (unsigned char) (id >> 8), (unsigned char) id,
        DNS_RD >> 8, DNS_RD & 0xff, 0, 1
    };
    const unsigned char  end[4] = {
        (unsigned char) (type >> 8), (unsigned char) type, 0, DNS_CLASS_IN
    };

    p = question->bytes;

    memcpy(p, header, sizeof(header));
    p += sizeof(header);
    memcpy(p, name->wire, name->len);
    p += name->len;
    memcpy(p, end, sizeof(end));
    p += sizeof(end);

    question->len = (size_t) (p - question->bytes);
}


dns_reply_kind_t
dns_reply_parse(const unsigned char *p, size_t n,
    const dns_question_t *question, dns_reply_t *reply)
{
    unsigned       flags, rcode, type, questions;
    dns_name_t     name;
    dns_message_t  m;

    if (n < DNS_HEADER || memcmp(p, question->bytes, 2) != 0) {
        return DNS_OTHER;
    }

    flags = dns_read16(p + 2);
    rcode = flags & DNS_RCODE;

    if (!(flags & DNS_QR) || (flags & DNS_OPCODE)) {
        return DNS_OTHER;
    }

    questions = dns_read16(p + 4);

    /* an error may come without the question, RFC 1035 section 4.1.1 */

    if (questions || rcode == 0 || rcode == DNS_NXDOMAIN) {

        if (questions == 1 && n < question->len) {
            return DNS_BAD;
        }

        if (questions != 1 || !dns_reply_is_asked(p, question)) {
            return DNS_OTHER;
        }
    }

    switch (rcode) {

    case 0:
        break;

    case DNS_NXDOMAIN:
        return DNS_NO_NAME;

    case DNS_REFUSAL:
        return DNS_SERVER_REFUSED;

    default:
        return DNS_SERVER_FAILED;
    }

    if (flags & DNS_TC) {
        return DNS_CUT;
    }

    type = dns_read16(question->bytes + question->len - 4);

    name.len = question->len - DNS_HEADER - 4;
    memcpy(name.wire, question->bytes + DNS_HEADER, name.len);

    m.p = p;
    m.n = n;
    m.at = question->len;

    return dns_reply_records(&m, dns_read16(p + 6), type, &name, reply);
}


/*
 * From alias to alias; nearly always they are in the order in which they lead
 * to an address, and one walk is enough.  name: the last one.
 */

static dns_reply_kind_t
dns_reply_records(dns_message_t *m, unsigned count, unsigned type,
    dns_name_t *name, dns_reply_t *reply)
{
    bool           moved;
    size_t         start, size;
    unsigned       i, walks, aliases;
    dns_record_t   record;
    dns_message_t  data;

    start = m->at;
    size = (type == DNS_TYPE_A) ? 4 : 16;
    aliases = 0;

    reply->count = 0;
    reply->ttl = UINT32_MAX;

    for (walks = 0; walks < DNS_WALKS_MAX; walks++) {

        m->at = start;
        moved = false;

        for (i = 0; i < count; i++) {

            if (dns_reply_record(m, &record) != 0) {
                return DNS_BAD;
            }

            if (record.class != DNS_CLASS_IN
                || !dns_name_same(&record.owner, name))
            {
                continue;
            }

            if (record.type == DNS_TYPE_CNAME) {

                data = *m;
                data.at = record.data;

                if (dns_reply_name(&data, name) != 0
                    || data.at != record.data + record.data_len
                    || ++aliases > DNS_ALIASES_MAX)
                {
                    return DNS_BAD;
                }

                moved = true;
                reply->count = 0;       /* what is an alias has no address */

            } else if (record.type == type) {

                if (record.data_len != size) {
                    return DNS_BAD;
                }

                dns_reply_add(reply, type, m->p + record.data);

            } else {
                continue;
            }

            if (record.ttl < reply->ttl) {
                reply->ttl = record.ttl;
            }
        }

        if (reply->count) {
            return DNS_FOUND;
        }

        if (!moved) {
            break;
        }
    }

    if (aliases == 0) {
        return DNS_FOUND;
    }

    reply->alias = *name;

    return DNS_ALIAS;
}


static int
dns_reply_record(dns_message_t *m, dns_record_t *record)
{
    const unsigned char  *p;

    if (dns_reply_name(m, &record->owner) != 0 || m->n - m->at < DNS_RECORD) {
        return -1;
    }

    p = m->p + m->at;

    record->type = dns_read16(p);
    record->class = dns_read16(p + 2);
    record->ttl = (uint32_t) dns_read16(p + 4) << 16 | dns_read16(p + 6);
    record->data_len = dns_read16(p + 8);
    record->data = m->at + DNS_RECORD;

    if (record->ttl > INT32_MAX) {
        record->ttl = 0;                /* RFC 2181 section 8 */
    }

    if (record->data_len > m->n - record->data) {
        return -1;
    }

    m->at = record->data + record->data_len;

    return 0;
}


/* The name at m->at, which is moved past it. */

static int
dns_reply_name(dns_message_t *m, dns_name_t *name)
{
    size_t         i, at, end, label, len, limit, pointers;

    at = m->at;
    pointers = 0;
    limit = at;                         /* a pointer leads before it */
    end = 0;
    len = 0;

    for ( ;; ) {

        if (at >= m->n) {
            return -1;
        }

        label = m->p[at];

        if (label > DNS_LABEL_MAX) {

            if (label < 0xc0 || m->n - at < 2) {
                return -1;
            }

            if (end == 0) {
                end = at + 2;
            }

            at = dns_read16(m->p + at) & 0x3fff;

            if (at >= limit || ++pointers > DNS_POINTERS_MAX) {
                return -1;
            }

            limit = at;
            continue;
        }

        if (label >= m->n - at || len + label + 1 > DNS_WIRE_MAX) {
            return -1;
        }

        name->wire[len++] = (unsigned char) label;

        for (i = 1; i <= label; i++) {
            name->wire[len++] = dns_lower(m->p[at + i]);
        }

        at += 1 + label;

        if (label == 0) {
            break;
        }
    }

    name->len = len;
    m->at = end ? end : at;

    return 0;
}


static void
dns_reply_add(dns_reply_t *reply, unsigned type, const unsigned char *bytes)
{
    size_t      i;
    address_t   address;

    memset(&address, 0, sizeof(address_t));

    address.v6 = (type != DNS_TYPE_A);
    memcpy(address.bytes, bytes, address.v6 ? 16 : 4);

    for (i = 0; i < reply->count; i++) {
        if (memcmp(reply->addresses[i].bytes, address.bytes, 16) == 0) {
            return;
        }
    }

    if (reply->count < DNS_ADDRESSES_MAX) {
        reply->addresses[reply->count++] = address;
    }
}


/* The question comes back as it was sent; a server may change its case. */

static bool
dns_reply_is_asked(const unsigned char *p, const dns_question_t *question)
{
    size_t  i, name;

    name = question->len - 4;

    for (i = DNS_HEADER; i < question->len; i++) {

        if (p[i] != question->bytes[i]
            && (i >= name || dns_lower(p[i]) != question->bytes[i]))
        {
            return false;
        }
    }

    return true;
}


static bool
dns_name_same(const dns_name_t *a, const dns_name_t *b)
{
    return a->len == b->len && memcmp(a->wire, b->wire, a->len) == 0;
}


static unsigned char
dns_lower(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') ? (unsigned char) (c | 0x20) : c;
}


static unsigned
dns_read16(const unsigned char *p)
{
    return (unsigned) p[0] << 8 | p[1];
}
