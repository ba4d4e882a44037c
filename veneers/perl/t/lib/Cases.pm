package Cases;

# Cases: each is a test with a server of its own.

use v5.36;

use Bifrost;
use Exporter qw(import);
use Served;
use Test::More;

our @EXPORT = qw(case failure);

binmode $_, ':encoding(UTF-8)' for map { Test::More->builder->$_ } qw(output failure_output todo_output);

# Runs a case against a server of a program, with settings; the body gets a session, and the server.
sub case ($name, $program, $body, @settings) {
    subtest $name => sub {
        my $server = serve("cases/programs/$program.theta", map { ('--set', $_) } @settings);
        my $s = Bifrost->connect($server->url);
        $body->($s, $server);
        $s->close;
        done_testing;
    };
}

# The exception with which a claim dies.
sub failure ($code) {
    return undef if eval { $code->(); 1 };
    return $@;
}

1;
