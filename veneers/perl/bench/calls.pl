# What a call costs in a batch: recorded by the library, and written by hand to a socket. The program
# is cases/programs/conformance.theta: `bifrost serve cases/programs/conformance.theta`, and its
# address in BIFROST_URL.

use v5.36;

use Bifrost;
use IO::Socket::UNIX;
use List::Util qw(min);
use Socket qw(SOCK_STREAM);
use Time::HiRes qw(time);

my ($calls, $rounds) = @ARGV ? @ARGV : (1_000, 21);

my $s = Bifrost->connect($ENV{BIFROST_URL});
my $p = $s->lookup(probe => 'Probe');
$p->same_int(0)->claim;

my ($path) = $ENV{BIFROST_URL} =~ m{^unix://(.*)} or die "BIFROST_URL is no unix:// address\n";
my $raw = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path) or die "$path: $!\n";
$raw->autoflush(1);
print $raw "hello 2 json name bench\n\$p := lookup probe: Probe\nflush\n";
<$raw> for 1 .. 2;

my %systems = (
    library => sub {
        my $last;
        $last = $p->same_int($_) for 1 .. $calls;
        $last->claim == $calls or die "a wrong result\n";
    },
    socket => sub {
        print $raw join('', map { "\$a := \$p.same_int($_)\n" } 1 .. $calls), "? \$a\n";
        <$raw> =~ /"value":$calls\b/ or die "a wrong result\n";
    },
);
my %times;
for my $round (0 .. $rounds) {
    for my $name (sort keys %systems) {
        my $begun = time;
        $systems{$name}->();
        # The first round warms up.
        push $times{$name}->@*, (time - $begun) * 1e6 / $calls if $round;
    }
}
printf "batches of %d calls, us a call: %8s %8s\n", $calls, 'median', 'least';
for my $name (sort keys %times) {
    my @sorted = sort { $a <=> $b } $times{$name}->@*;
    printf "  %-26s %10.2f %8.2f\n", $name, $sorted[ @sorted / 2 ], $sorted[0];
}
