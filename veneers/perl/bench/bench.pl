# The measured client of `bifrost bench veneers` in Perl.
#
# It connects to BIFROST_URL, a server of cases/programs/conformance.theta at a unix socket, and answers
# lines `CASE N` by the nanoseconds and the result of N steps (bench/veneers/README.md).

use v5.36;

use Bifrost;
use IO::Socket::UNIX;
use List::Util qw(sum0);
use Socket qw(AF_UNIX PF_UNSPEC SOCK_STREAM);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

# The bytes of the messages of `raw`: those of a call with one integer that is claimed, and of its answer.
my ($CALL_BYTES, $ANSWER_BYTES) = (52, 91);

# A socket whose other end, in a process of its own, sends back an answer for each message.
sub echo () {
    socketpair my $socket, my $other, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die "socketpair: $!\n";
    my $process = fork // die "fork: $!\n";
    if ($process) {
        close $other;
        return $socket;
    }
    close $socket;
    while (sysread $other, my $message, 4096) {
        syswrite $other, 'x' x $ANSWER_BYTES;
    }
    exit;
}

# A connection that has the text form written by hand.
sub by_hand () {
    my ($path) = $ENV{BIFROST_URL} =~ m{^unix://(.+)} or die "BIFROST_URL is no unix:// address\n";
    my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path) or die "$path: $!\n";
    $socket->print("hello 2 json name bench\n\$p := lookup probe: Probe\nflush\n");
    $socket->getline for 1 .. 2;
    return $socket;
}

my $raw   = echo();
my $text  = by_hand();
my $s     = Bifrost->connect($ENV{BIFROST_URL});
my $probe = $s->lookup(probe => 'Probe');
$s->flush;

# Nanoseconds.
sub now () { return 1e9 * clock_gettime(CLOCK_MONOTONIC) }

# A case is a sub that does so many steps, and returns the result and, if it does more, the end of the time.
my %cases = (
    record => sub ($count) {
        my $result = 0;
        # The stubs are dropped: the recording alone.
        for my $n (0 .. $count - 1) {
            $probe->same_int($n);
            $result += $n;
        }
        my $end = now();
        $s->flush;
        return $result, $end;
    },
    batch => sub ($count) {
        my @stubs = map { $probe->same_int($_) } 0 .. $count - 1;
        $stubs[-1]->claim;
        my $end = now();
        return sum0(map { $_->claim } @stubs), $end;
    },
    null => sub ($count) {
        $probe->nothing->claim for 1 .. $count;
        return $count;
    },
    pair => sub ($count) {
        my $result = 0;
        $result += $probe->same_int($_)->claim for 0 .. $count - 1;
        return $result;
    },
    two => sub ($count) {
        my $result = 0;
        $result += $probe->itself->same_int($_)->claim for 0 .. $count - 1;
        return $result;
    },
    table => sub ($count) {
        my $rows = $s->rows($probe->pairs($count), [ 'int', 'string' ], sub ($n, $text) { ($n, $text) });
        return sum0(map { $_->[0] + length $_->[1] } $rows->claim->@*);
    },
    raw => sub ($count) {
        for (1 .. $count) {
            syswrite $raw, 'y' x $CALL_BYTES;
            sysread $raw, my $answer, 4096 or die "the other end of `raw` has ended\n";
        }
        return $count;
    },
    last => sub ($count) {
        my $last;
        $last = $probe->same_int($_) for 0 .. $count - 1;
        return $last->claim;
    },
    socket => sub ($count) {
        $text->print(join('', map { "\$a := \$p.same_int($_)\n" } 0 .. $count - 1), "? \$a\n");
        my ($last) = $text->getline =~ /"value":(\d+)/ or die "`socket` has no result\n";
        return $last;
    },
);

STDOUT->autoflush(1);
while (my $line = <STDIN>) {
    my ($name, $count) = split ' ', $line;
    my $case = $cases{$name} // die "there is no case $name\n";
    my $begin = now();
    my ($result, $end) = $case->($count);
    $end //= now();
    printf "%.0f %d\n", $end - $begin, $result;
}
