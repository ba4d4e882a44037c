# A peer of `bifrost bench veneers` in Perl: Redis.pm, at the unix socket that is its argument. Calls that
# do not wait for each other have callbacks.

use v5.36;

use List::Util qw(sum0);
use Redis;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my $redis = Redis->new(sock => $ARGV[0]);
# The key of a call that returns an object.
$redis->set(probe => 'object:1');

# Nanoseconds.
sub now () { return 1e9 * clock_gettime(CLOCK_MONOTONIC) }

# Begins calls; their results come into the array that is returned, by `wait_all_responses`.
sub begin ($count) {
    my @results;
    for my $n (0 .. $count - 1) {
        $redis->echo($n, sub ($reply, $error) { push @results, $reply // die "$error\n" });
    }
    return \@results;
}

# Has so many rows in the list `pairs`: two elements each.
sub fill ($count) {
    return if $redis->llen('pairs') == 2 * $count;
    $redis->del('pairs');
    $redis->rpush(pairs => map { ($_, $_) } 1 .. $count);
    return;
}

# A case does so many steps, and returns the result and, if it does more, the end of the time.
my %cases = (
    record => sub ($count) {
        my $results = begin($count);
        my $end     = now();
        $redis->wait_all_responses;
        return sum0(@$results), $end;
    },
    batch => sub ($count) {
        my $results = begin($count);
        $redis->wait_all_responses;
        return sum0(@$results);
    },
    null => sub ($count) {
        for (1 .. $count) { $redis->ping or die "no answer to PING\n" }
        return $count;
    },
    pair => sub ($count) {
        my $result = 0;
        $result += $redis->echo($_) for 0 .. $count - 1;
        return $result;
    },
    two => sub ($count) {
        my $result = 0;
        for my $n (0 .. $count - 1) {
            $redis->get('probe') or die "there is no object\n";
            $result += $redis->echo($n);
        }
        return $result;
    },
    table => sub ($count) {
        my @values = $redis->lrange('pairs', 0, 2 * $count - 1);
        my $result = 0;
        while (my ($n, $text) = splice @values, 0, 2) {
            $result += $n + length $text;
        }
        return $result;
    },
);

STDOUT->autoflush(1);
while (my $line = <STDIN>) {
    my ($name, $count) = split ' ', $line;
    my $case = $cases{$name} // die "there is no case $name\n";
    fill($count) if $name eq 'table';
    my $begin = now();
    my ($result, $end) = $case->($count);
    $end //= now();
    printf "%.0f %d\n", $end - $begin, $result;
}
