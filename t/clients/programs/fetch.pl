# One request by LWP: fetch.pl URL.

use v5.36;

use LWP::UserAgent;

my $answer = LWP::UserAgent->new(env_proxy => 1)->get(shift);
print $answer->decoded_content;
exit !$answer->is_success;
