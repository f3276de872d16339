package AgentSchema;

# As much of JSON Schema as conf/audit.schema.json uses: type, const, enum,
# pattern, minimum, maximum, maxLength, items, minItems, maxItems, required,
# properties, additionalProperties, allOf, if and then.  An unknown word dies: a schema
# that is not understood must not pass for one that is kept.

use v5.36;

use JSON::PP ();

my %annotation = map { $_ => 1 } qw($schema title description);

sub load ($path) {
    open my $f, '<', $path or die "$path: $!";
    local $/;
    return JSON::PP->new->utf8->decode(scalar <$f>);
}

sub type_of ($v) {
    return 'null' if !defined $v;
    return 'boolean' if JSON::PP::is_bool($v);
    return 'object' if ref $v eq 'HASH';
    return 'array' if ref $v eq 'ARRAY';
    my $text = JSON::PP->new->allow_nonref->encode($v);
    return 'string' if $text =~ /^"/;
    return $text =~ /^-?\d+$/ ? 'integer' : 'number';
}

my $canonical = JSON::PP->new->canonical->allow_nonref;

sub same ($one, $two) {
    return $canonical->encode($one) eq $canonical->encode($two);
}

my %word = (
    type => sub ($want, $v, $s) {
        my $is = type_of($v);
        grep({ $_ eq $is || ($_ eq 'number' && $is eq 'integer') }
             ref $want ? @$want : $want) ? () : "is $is";
    },
    const => sub ($want, $v, $s) {
        same($want, $v) ? () : 'is not ' . $canonical->encode($want);
    },
    enum => sub ($want, $v, $s) {
        grep({ same($_, $v) } @$want) ? () : 'is none of the enum';
    },
    pattern => sub ($want, $v, $s) {
        type_of($v) ne 'string' || $v =~ /$want/ ? () : "does not fit $want";
    },
    minimum => sub ($want, $v, $s) {
        type_of($v) ne 'integer' || $v >= $want ? () : "is below $want";
    },
    maximum => sub ($want, $v, $s) {
        type_of($v) ne 'integer' || $v <= $want ? () : "is above $want";
    },
    maxLength => sub ($want, $v, $s) {
        type_of($v) ne 'string' || length $v <= $want ? () : 'is too long';
    },
    items => sub ($want, $v, $s) {
        map { errors($want, $_) } type_of($v) eq 'array' ? @$v : ();
    },
    minItems => sub ($want, $v, $s) {
        type_of($v) ne 'array' || @$v >= $want ? () : "has not $want items";
    },
    maxItems => sub ($want, $v, $s) {
        type_of($v) ne 'array' || @$v <= $want ? () : 'has too many items';
    },
    required => sub ($want, $v, $s) {
        map { exists $v->{$_} ? () : "lacks $_" } @$want;
    },
    properties => sub ($want, $v, $s) {
        map {
            my $name = $_;
            map { "$name $_" } errors($want->{$name}, $v->{$name});
        } grep { exists $v->{$_} } sort keys %$want;
    },
    additionalProperties => sub ($want, $v, $s) {
        die 'additionalProperties must be false' if $want;
        map { "has an unknown key $_" }
            grep { !exists $s->{properties}{$_} } sort keys %$v;
    },
    allOf => sub ($want, $v, $s) { map { errors($_, $v) } @$want },
    if => sub ($want, $v, $s) {
        errors($want, $v) ? () : errors($s->{then}, $v);
    },
    then => sub ($want, $v, $s) { () },
);

# What is wrong with the value, as a list of sentences; empty when it fits.
sub errors ($schema, $value) {
    my @errors;
    for my $name (sort keys %$schema) {
        next if $annotation{$name};
        my $check = $word{$name} // die "unknown schema word \"$name\"\n";
        push @errors, $check->($schema->{$name}, $value, $schema);
    }
    return @errors;
}

1;
