# Addresses, tokens, servers that are gone, and servers that send anything.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";

use Bifrost;
use File::Temp qw(tempdir);
use IO::Socket::INET;
use IO::Socket::UNIX;
use Served;
use Socket qw(SOCK_STREAM);
use Test::More;
use Time::HiRes qw(time);

my $DATABASE = 'examples/database/database.theta';

sub failure ($code) {
    return undef if eval { $code->(); 1 };
    return $@;
}

# A server that answers the lines of a client with others, whatever they are, and then ends.
sub scripted ($folder, @answers) {
    state $number = 0;
    my $path     = "$folder/" . ++$number;
    my $listener = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $path, Listen => 1) or die "$path: $!\n";
    my $pid      = fork // die "no process: $!\n";
    if (!$pid) {
        my $client = $listener->accept;
        $client->autoflush(1);
        for my $answer (@answers) {
            # Of a batch the last line is its end.
            while (defined(my $line = <$client>)) { last if $line =~ /^(?:hello|limits|flush|\?|describe|list|bye)/ }
            print $client $answer;
        }
        exit 0;
    }
    return ("unix://$path", $pid);
}

subtest 'tokens over TCP' => sub {
    my $port   = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
    my $server = serve($DATABASE, '--listen', "tcp://127.0.0.1:$port", '--token', 'a-long-secret-for-tests');
    my $url    = "tcp://127.0.0.1:$port";
    local $ENV{BIFROST_TOKEN};
    isa_ok failure(sub { Bifrost->connect($url, token => 'wrong') }), 'Bifrost::ConnectError', 'a wrong token';
    isa_ok failure(sub { Bifrost->connect($url) }), 'Bifrost::ConnectError', 'no token';
    my $s = Bifrost->connect($url, token => 'a-long-secret-for-tests');
    is $s->lookup(database => 'DataBase')->fetch('ann')->visits->claim, 0;
    $s->close;
    local $ENV{BIFROST_TOKEN} = 'a-long-secret-for-tests';
    ok(Bifrost->connect($url), 'from the environment');
};

subtest 'nobody there' => sub {
    like failure(sub { Bifrost->connect('unix:///nowhere/socket') }), qr{^nobody answers at unix:///nowhere/socket: };
    like failure(sub { Bifrost->connect('tls://host:1') }), qr/is no address for this client: it speaks unix:.* and tcp:/;
    like failure(sub { Bifrost->connect('unix:///x', speed => 1) }), qr/^connect has no option `speed`/;
};

subtest 'a server that is killed' => sub {
    my $server = serve($DATABASE);
    my $s      = Bifrost->connect($server->url);
    my $db     = $s->lookup(database => 'DataBase');
    is $db->fetch('ann')->visits->claim, 0;
    kill 'KILL', $server->pid;
    my $begun = time;
    isa_ok failure(sub { $db->fetch('ann')->visits->claim }), 'Bifrost::ConnectError';
    ok time - $begun < 1, 'within a second';
    like failure(sub { $db->fetch('ann') }), qr/^the session has ended/;
    $s->close;
};

my $folder  = tempdir(CLEANUP => 1);
my $hello   = qq({"welcome":2,"server":"x","session":1}\n);
my @welcome = ($hello, qq({"limits":{"depth_max":64}}\n));
my $type    = qq({"text":"A = type\\n"}\n);
my %answers = (
    'nothing'                 => [],
    'no JSON'                 => ["hello\n"],
    'a number'                => ["5\n"],
    'a cut line'              => ['{"welcome":2'],
    'no JSON later'           => [ @welcome, "x\n" ],
    'no limits'               => [ $hello, "{}\n" ],
    'limits that are none'    => [ $hello, qq({"limits":[]}\n) ],
    'no description'          => [ @welcome, "{}\n" ],
    'no results'              => [ @welcome, $type, "{}\n" ],
    'results that are none'   => [ @welcome, $type, qq({"results":{"a":1},"exceptions":[]}\n) ],
    'results of numbers'      => [ @welcome, $type, qq({"results":[1,2],"exceptions":[]}\n) ],
    'bytes that are no UTF-8' => [ @welcome, "\xff\xfe\x80\n" ],
    'depth'                   => [ @welcome, '[' x 100_000 . "\n" ],
);
for my $name (sort keys %answers) {
    my ($url, $pid) = scripted($folder, $answers{$name}->@*);
    my $error = failure(sub { Bifrost->connect($url, timeout => 10)->lookup(a => 'A')->claim });
    isa_ok $error, 'Bifrost::ConnectError', $name;
    waitpid $pid, 0;
}

subtest 'causes in a circle' => sub {
    my $circle = '{"call":1,"name":"a","unhandled":{"argument":0,"cause":2}},{"call":2,"name":"b","unhandled":{"argument":0,"cause":1}}';
    my ($url, $pid) = scripted($folder, @welcome, $type, qq({"results":[{"name":"\$a1","failed":true}],"exceptions":[$circle]}\n));
    my $error = failure(sub { Bifrost->connect($url)->lookup(a => 'A')->claim });
    isa_ok $error, 'Bifrost::Exception';
    waitpid $pid, 0;
};

subtest 'a server that says nothing' => sub {
    my ($url, $pid) = scripted($folder, @welcome, $type, '');
    my $s = Bifrost->connect($url, timeout => 1);
    kill 'STOP', $pid;
    like failure(sub { $s->lookup(a => 'A')->claim }), qr/^no answer came within 1 seconds/;
    kill 'KILL', $pid;
    waitpid $pid, 0;
};

subtest 'long batches and long answers' => sub {
    my $server = serve($DATABASE);
    my $s      = Bifrost->connect($server->url);
    my $db     = $s->lookup(database => 'DataBase');
    my @visits = map { $db->fetch('ann')->visits } 1 .. 3_000;
    is scalar(grep { $_->claim == 0 } @visits), 3_000;
    is $s->crossings, 1;
    is length $s->value(string => 'x' x 200_000)->concat('y')->claim, 200_001;
    $s->close;
};

subtest 'transactions' => sub {
    my $server = serve($DATABASE);
    my ($s, $other) = map { Bifrost->connect($server->url) } 1 .. 2;
    my $db = $s->lookup(database => 'DataBase');
    is $s->transaction(sub { $db->new_user('dora')->name })->claim, 'dora';
    is $other->lookup(database => 'DataBase')->fetch('dora')->name->claim, 'dora', 'others see it';
    is failure(sub { $s->transaction(sub { $db->new_user('emil'); die "mine\n" }) }), "mine\n";
    is failure(sub { $s->transaction(sub { $db->new_user('dora') }) })->name, 'not_possible';
    like failure(sub { $s->transaction(sub { $s->flush }) }), qr/^flush stands outside transactions/;
    $other->abort;
    is failure(sub { $other->lookup(database => 'DataBase')->fetch('emil')->name->claim })->name, 'not_found';
    $db->new_user('dora');
    like failure(sub { $s->commit }), qr/^commit was not sent: new_user signals not_possible/, 'an untold failure';
    $s->abort;
    $_->close for $s, $other;
};

subtest 'names that are lines' => sub {
    my $server = serve($DATABASE);
    my $s      = Bifrost->connect($server->url);
    my $db     = $s->lookup(database => 'DataBase');
    my $nothing = sub { };
    for my $name ("x\nabort", 'a b', '', "x\n") {
        like failure(sub { $s->except($nothing, when => [ $name => $nothing ]) }), qr/ is no name of a signal/;
        like failure(sub { $s->except($nothing, when => [ odd => ["int\n$name"], $nothing ]) }), qr/ is no type/;
        like failure(sub { $s->procedure($name => [], undef, $nothing) }), qr/ is no name of a procedure/;
        like failure(sub { $s->cell("int\n$name") }), qr/ is no type/;
        like failure(sub { $s->lookup(database => "DataBase\n$name") }), qr/ is no type/;
    }
    is $db->fetch('ann')->visits->claim, 0, 'nothing of it was recorded';
    $s->close;
};

subtest 'a failure that nobody has claimed at the end' => sub {
    my $server = serve($DATABASE);
    my $s      = Bifrost->connect($server->url);
    $s->lookup(database => 'DataBase')->fetch('nobody');
    like failure(sub { $s->close }), qr/^the session has ended, and nobody claimed: fetch signals not_found/;
    like failure(sub { $s->cell('int') }), qr/^the session has ended/;
    $s->close;
};

subtest 'a full batch is sent by itself' => sub {
    my $server = serve($DATABASE, '--set', 'limits.batch_commands_max=64');
    my $s      = Bifrost->connect($server->url);
    my $db     = $s->lookup(database => 'DataBase');
    $db->fetch('ann')->touch for 1 .. 100;
    is $db->fetch('ann')->visits->claim, 100;
    ok $s->crossings > 3, $s->crossings . ' crossings';
    my $text = $s->value(string => 'x' x 100)->concat('y');
    is length $text->claim, 101;
    $s->close;
};

done_testing;
