package Bifrost;

use v5.36;

our $VERSION = '0.1.0';

use Carp qw(croak);
use IO::Socket::IP;
use IO::Socket::UNIX;
use JSON::PP ();
use Scalar::Util qw(blessed looks_like_number weaken);
use Socket qw(IPPROTO_TCP SOCK_STREAM TCP_NODELAY);

our @CARP_NOT = qw(Bifrost::Stub Bifrost::Iterator Bifrost::Sender);

=encoding utf8

=head1 NAME

Bifrost - calls to the objects of a Bifrost server, in batches

=head1 SYNOPSIS

    my $s     = Bifrost->connect('unix:///run/bifrost.sock');
    my $db    = $s->lookup(database => 'DataBase');
    my $total = $s->cell(int => 0);
    $s->foreach($db->users, sub ($user) {
        $s->if($user->visits > 0, sub { $total->put($total->get + $user->visits) });
    });
    say $total->get->claim;

=head1 DESCRIPTION

Calls are recorded, and cross in a batch when a result is claimed. Methods are those of the server's
types: a call is checked against them when it is recorded. The README has a guide.

=cut

# Bytes of lines that wait before they are sent without a flush.
my $PENDING_BYTES_MAX = 64 << 10;
# The longest wait of a live batch before it waits again.
my $LIVE_MS = 10_000;
# The longest answer.
my $ANSWER_BYTES_MAX = 64 << 20;
my $JSON = JSON::PP->new->utf8;
my %BASIC = map { $_ => 1 } qw(null bool int real char string bytes);

# Connects to a server: `unix:///path` or `tcp://host:port`. Options: `token`, `name`, `timeout` in
# seconds for each answer (60 by default; 0 for none).
sub connect ($class, $url, %options) {
    my $token   = delete $options{token} // $ENV{BIFROST_TOKEN};
    my $name    = delete $options{name}  // $0;
    my $timeout = delete $options{timeout} // 60;
    croak "connect has no option `$_`" for sort keys %options;
    my $socket;
    if ($url =~ m{^unix://(/.+)$}) {
        $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $1);
    }
    elsif ($url =~ m{^tcp://(.+):(\d+)$}) {
        my ($host, $port) = ($1, $2);
        $host =~ s/^\[(.*)\]$/$1/;
        $socket = IO::Socket::IP->new(PeerHost => $host, PeerPort => $port, Timeout => $timeout || undef);
        $socket->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1) if $socket;
    }
    else {
        croak "`$url` is no address for this client: it speaks unix:///path and tcp://host:port";
    }
    $socket or die Bifrost::ConnectError->new("nobody answers at $url: $!");
    my $self = bless {
        socket   => $socket,
        timeout  => $timeout,
        input    => '',
        # Lines that were not sent, and those of an open structure.
        pending  => '',
        block    => undef,
        depth    => 0,
        # The number of lines that were sent.
        sent     => 0,
        # The number of the last name, and the position of the last result of the batch.
        names    => 0,
        position => 0,
        # Stubs of this batch by their position.
        batch    => {},
        freed    => [],
        types    => {},
        history  => [],
        # Failures that no claim has told.
        untold   => [],
        calls     => 0,
        crossings => 0,
        # Lines of the batch that were not flushed, their bytes, and the seconds for which they wait.
        lines => 0,
        bytes => 0,
        waits => 0,
    }, $class;
    my $hello = 'hello 2 json name ' . _text($name);
    $hello .= ' token ' . _text($token) if defined $token && length $token;
    # The limits come with the welcome.
    $self->{pending} = "$hello\nlimits\n";
    my $welcome = $self->_answer;
    die Bifrost::ConnectError->new($welcome->{text} // $welcome->{error}) if $welcome->{error};
    @$self{qw(number server)} = @$welcome{qw(session server)};
    $self->{limits} = $self->_part($self->_answer, 'limits');
    $self->_lost('the server has sent limits that are none') unless ref $self->{limits} eq 'HASH';
    # A batch is sent by itself before it reaches a limit of the server.
    $self->{lines_max}    = 0.75 * $self->_limit('batch_commands_max');
    $self->{position_max} = 0.75 * $self->_limit('futures_max');
    $self->{bytes_max}    = 0.5 * $self->_limit('batch_bytes_max');
    return $self;
}

# The number of the session, for logs, and the name of the server.
sub number ($self) { return $self->{number} }
sub server ($self) { return $self->{server} }

# The flushes that were answered, and the calls that they ran.
sub crossings ($self) { return $self->{crossings} }
sub calls ($self)     { return $self->{calls} }

# A well-known object. It has the type, or its first use fails.
sub lookup ($self, $name, $type) {
    $self->_outside('lookup');
    $self->_methods($type);
    return $self->_record('lookup ' . _text($name) . ": $type", $type);
}

# A cell for values of a type, with a value if one is given.
sub cell ($self, $type, @value) {
    croak 'a cell has one value at most' if @value > 1;
    $self->_methods($type);
    my $cell = $self->_record("cell $type", "cell[$type]");
    $cell->put($value[0]) if @value;
    return $cell;
}

# A value as a result, for methods of a value of Perl: `value(int => 7)->to(8)`.
sub value ($self, $type, $value) { return $self->_record($self->_literal($type, $value), $type) }

# A call of a routine of the program.
sub routine ($self, $name, @arguments) {
    my $heading = $self->_routines->{$name};
    croak "the server has no routine `$name`; it has: " . join(', ', sort keys $self->_routines->%*)
        unless $heading;
    return $self->_call(undef, $heading, @arguments);
}

# The contents of an object as a value.
sub get ($self, $object) {
    $self->_outside('get');
    return $self->_record('get ' . $self->_receiver($object), $object->type);
}

# Runs the body for each value of an iterator: `foreach($db->users, sub ($user) { ... })`.
sub foreach ($self, $iterator, $body) {
    blessed $iterator && $iterator->isa('Bifrost::Iterator')
        or croak 'foreach wants the call of an iterator and a body';
    $self->_same($iterator);
    $self->_structure(sub {
        my @types = $iterator->{heading}{results}->@*;
        my $call  = $self->_text_of($iterator->@{qw(receiver heading)}, $iterator->{arguments}->@*);
        my @stubs = map { $self->_stub($_) } @types;
        $self->_line('foreach ' . join(', ', map { $_->{name} } @stubs) . " in $call do");
        $self->_body('loop', sub { $body->(@stubs) });
        $self->_line('end');
    });
    return;
}

# Runs the body while the condition, a sub that records, is true.
sub while ($self, $condition, $body) {
    $self->_structure(sub {
        $self->_line('while');
        my $test = $self->_body('block', $condition);
        $self->_line('do ' . $self->_condition($test));
        $self->_body('loop', $body);
        $self->_line('end');
    });
    return;
}

# Runs one of two bodies.
sub if ($self, $test, $then, $else = undef) {
    $self->_structure(sub {
        if (ref $test eq 'CODE') {
            $self->_line('if');
            $test = $self->_body('block', $test);
            $self->_line('then ' . $self->_condition($test));
        }
        else {
            $self->_line('if ' . $self->_condition($test) . ' then');
        }
        $self->_body('block', $then);
        if ($else) {
            $self->_line('else');
            $self->_body('block', $else);
        }
        $self->_line('end');
    });
    return;
}

# True if both are: the second one, a sub, is run if the first one is true.
sub and ($self, $first, $second) { return $self->_lazy($first, $second, 1) }

# True if one is: the second one, a sub, is run if the first one is false.
sub or ($self, $first, $second) { return $self->_lazy($first, $second, 0) }

sub _lazy ($self, $first, $second, $goes_on) {
    my $cell = $self->cell('bool', $first);
    my $more = sub { $cell->put($second->()) };
    $self->if($cell->get, $goes_on ? ($more) : (sub { }, $more));
    return $cell->get;
}

# Leaves the innermost loop, or begins its next step.
sub break ($self)    { return $self->_leave('break') }
sub continue ($self) { return $self->_leave('continue') }

# Runs a body, and a handler if it signals an exception:
#
#     $s->except(sub { ... },
#         when   => [not_found => sub { ... }],
#         when   => [odd => ['int'], sub ($n) { ... }],
#         others => sub ($name) { ... });
sub except ($self, $body, @handlers) {
    croak 'except wants pairs of `when` or `others` and a handler' if !@handlers || @handlers % 2;
    $self->_structure(sub {
        $self->_line('except');
        $self->_body('block', $body);
        while (my ($word, $handler) = splice @handlers, 0, 2) {
            if ($word eq 'when') {
                my $run   = pop @$handler;
                my ($name, $types) = @$handler;
                _word('a signal', $name);
                $self->_methods($_) for @{ $types // [] };
                my @stubs = map { $self->_stub($_) } @{ $types // [] };
                my $named = join ', ', map { "$_->{name}: $_->{type}" } @stubs;
                $self->_line("when $name" . ($types ? " ($named)" : ''));
                $self->_body('block', sub { $run->(@stubs) });
            }
            elsif ($word eq 'others') {
                my $name = $self->_stub('string');
                $self->_line("others $name->{name}");
                $self->_body('block', sub { $handler->($name) });
            }
            else { croak "except has `when` and `others`, not `$word`" }
        }
        $self->_line('end');
    });
    return;
}

# Defines a procedure of this session: `procedure(twice => ['int'], 'int', sub ($n) { $n * 2 })`.
# Returns a sub that calls it. Without a type of the result the body returns nothing.
sub procedure ($self, $name, $types, $result, $body) {
    croak 'a procedure stands outside other structures' if $self->{depth};
    _word('a procedure', $name);
    $self->_methods($_) for @$types, $result // ();
    my $heading = { name => $name, parameters => $types, results => [ $result // () ], signals => [] };
    my $call = sub (@arguments) { $self->_call(undef, $heading, @arguments) };
    $self->_structure(sub {
        my @stubs = map { $self->_stub($_) } @$types;
        my $named = join ', ', map { "$_->{name}: $_->{type}" } @stubs;
        my $head  = "procedure $name" . (@stubs ? " ($named)" : '');
        $self->_line($head . (defined $result ? " returns $result" : ''));
        my $value = $self->_body('procedure', sub { $body->(@stubs) });
        $self->_line('return ' . $self->_operand($result, $value)) if defined $result;
        $self->_line('end');
    });
    return $call;
}

# Ends a procedure's run early, with its result.
sub return ($self, $type = undef, $value = undef) {
    croak 'return stands in a procedure' unless $self->{in_procedure};
    $self->_line(defined $type ? 'return ' . $self->_operand($type, $value) : 'return');
    return;
}

# A table: a row for each step of an iterator, with the values that the body returns. Its claim is a
# list of rows.
sub rows ($self, $iterator, $types, $body) {
    $self->_outside('rows');
    $self->_methods($_) for @$types;
    my $rows = $self->_record('rows ' . join(', ', @$types), 'rows');
    $rows->{columns} = $types;
    $self->foreach($iterator, sub (@values) {
        my @row = $body->(@values);
        croak 'a row has ' . @row . ' values, and the table ' . @$types . ' columns' if @row != @$types;
        $self->{position}++;
        $self->_line("emit $rows->{name}, " . join ', ', map { $self->_operand($types->[$_], $row[$_]) } 0 .. $#row);
    });
    return $rows;
}

# Runs a body as a transaction: a batch of its own, which the server runs again after a conflict.
# Returns what the body returns, once it is committed. The body is recorded once, and claims nothing.
# Options: `tries` (as many as the server likes); `batch`, 32 hexadecimal digits and a number: with
# this name it is done once, however often it is sent, and by any session.
sub transaction ($self, $body, %options) {
    my $tries = delete $options{tries} // 0;
    my $batch = delete $options{batch};
    croak "transaction has no option `$_`" for sort keys %options;
    croak 'a transaction is tried from 0 (as the server likes) to 65535 times' unless $tries =~ /^\d+$/ && $tries < 65_536;
    $self->_outside('transaction');
    $self->flush;
    $self->_tell('transaction was not sent');
    $self->_clear;
    my $command = $tries ? "transaction $tries" : 'transaction';
    if ($batch) {
        my ($client, $number) = @$batch;
        croak 'a batch has 32 hexadecimal digits and a number' unless $client =~ /^[0-9a-f]{32}$/ && $number =~ /^\d+$/;
        $command .= qq( batch "$client" $number);
    }
    my $done = $self->_record($command, 'null');
    $self->{transaction} = $done;
    my @results;
    my $is_done = eval { @results = $body->(); 1 };
    my $error   = $@;
    delete $self->{transaction};
    unless ($is_done) {
        # The server runs what was recorded, up to the abort.
        $self->_record('abort', 'null');
        $self->flush;
        $self->{untold} = [];
        die $error;
    }
    my @failures = $self->flush;
    $self->{untold} = [];
    # It is not committed after a failure, which says more than its own.
    my ($first) = grep { $_->name ne 'Unseen' } @failures;
    die $first if $first && $done->{error};
    $done->claim;
    return wantarray ? @results : $results[0];
}

# Commits, or aborts, the transaction, and begins the next one. A commit dies if it fails, or if a
# failure of the transaction was not claimed: then nothing is committed.
sub commit ($self) {
    $self->_outside('commit');
    $self->flush;
    $self->_tell('commit was not sent');
    $self->_clear;
    $self->_record('commit', 'null')->claim;
    return;
}

sub abort ($self) {
    $self->_outside('abort');
    $self->flush;
    $self->{untold} = [];
    $self->_record('abort', 'null')->claim;
    return;
}

# Says that the program knows all failures: the server commits nothing before.
sub _clear ($self) {
    $self->_line('clear') if delete $self->{has_failed};
    return;
}

# Dies with the first failure that nobody has claimed.
sub _tell ($self, $why) {
    my ($first, @more) = splice $self->{untold}->@* or return;
    my $text = "$why: $first->{text}" . (@more ? ', and ' . @more . ' more failures' : '');
    die bless { %$first, text => $text }, ref $first;
}

# Waits until others change an object that the transaction has read, for so many milliseconds.
sub wait ($self, $milliseconds) {
    $self->_outside('wait');
    croak "`$milliseconds` are no milliseconds" unless $milliseconds =~ /^\d+$/;
    $self->{waits} += $milliseconds / 1000;
    return $self->_record("wait $milliseconds", 'bool');
}

# Records a batch, hands its results to a sub, and does so again whenever others may have changed
# them, until the sub returns false. A wait and the next run are one crossing.
#
#     $s->live(sub { $db->fetch('ann')->visits }, sub ($visits) { say $visits });
sub live ($self, $record, $show) {
    $self->commit;
    my @stubs = $record->();
    while ($show->(map { $_->claim } @stubs)) {
        my $changed;
        do {
            $changed = $self->wait($LIVE_MS);
            @stubs   = $record->();
        } until $changed->claim;
    }
    return;
}

# Sends the batch. Returns the exceptions that nobody has claimed.
sub flush ($self) {
    $self->_outside('flush');
    return () unless $self->{lines};
    $self->_free;
    my %wanted = map { $_->{name} => $_ } grep { defined } values $self->{batch}->%*;
    my @names = sort { substr($a, 2) <=> substr($b, 2) } keys %wanted;
    # Nothing is run if a line before this was not taken: the position would be another.
    my $mark = '@' . ++$self->{position};
    $self->{pending} .= "$mark := 0\n? " . join(', ', $mark, @names) . "\n";
    my $answer = $self->_answer;
    $self->_lost("$answer->{error}: " . ($answer->{text} // 'no text')) if $answer->{error};
    $self->{crossings}++;
    $self->{calls} += $answer->{calls} // 0;
    my @told   = $self->_items($answer, 'exceptions');
    my %causes = map { $_->{call} // 0 => $_ } @told;
    my $failed = delete $self->{failed} // {};
    # In a loop a call may fail several times.
    my @errors = map { Bifrost::Exception->new($_, \%causes, $failed) } @told;
    my %errors = map { $_->{call} // 0 => $_ } @errors;
    $_->{causes} = [ map { $errors{$_} // () } $_->{calls}->@* ] for @errors;
    for my $result ($self->_items($answer, 'results')) {
        my $stub = $wanted{ $result->{name} // '' } // next;
        $stub->{state} = $result;
        # What was not reached has the failure that ended the batch.
        $stub->{error} = $errors{ $stub->{cause} // $stub->{position} } if $result->{failed};
        $stub->{error} = $errors[-1] if $result->{not_reached};
        $stub->{error} //= Bifrost::Exception->lost($stub->{what}) if $result->{failed} || $result->{not_reached};
    }
    push $self->{history}->@*, @errors;
    push $self->{untold}->@*,  @errors;
    $self->{has_failed} = 1 if @errors;
    @$self{qw(batch position lines bytes waits)} = ({}, 0, 0, 0, 0);
    return @errors;
}

# The exceptions of all batches, the oldest first.
sub history ($self) { return $self->{history}->@* }

# The limits of the session, by their names.
sub limits ($self) { return $self->{limits} }

# What the server knows of a type, or of all; the commands of the batch.
sub describe ($self, $type = '') { return $self->_ask("describe $type", 'text') }
sub explain ($self) { return $self->_ask('explain', 'text') }

# Sends the batch, and ends the session. Dies after that with a failure of this last batch.
sub close ($self) {
    return unless $self->{socket};
    $self->{untold} = [];
    $self->flush unless $self->{depth};
    $self->{pending} = "bye\n";
    $self->_answer;
    delete $self->{socket};
    $self->_tell('the session has ended, and nobody claimed');
    return;
}

sub DESTROY ($self) {
    local ($@, $!);
    eval { $self->{socket}->close if $self->{socket} };
}

# ----- recording

# Records a command that has a result.
sub _record ($self, $text, $type, $what = undef) {
    $self->_room(0);
    my $stub = $self->_stub($type);
    $stub->{what} = $what // $text =~ s/ .*//r;
    $self->_append("$stub->{name} := $text");
    return $stub;
}

# Sends the batch if so many more lines would reach a limit.
sub _room ($self, $more) {
    my $is_full = $self->{lines} + $more >= $self->{lines_max} || $self->{position} + $more >= $self->{position_max}
        || $self->{bytes} + 64 * $more >= $self->{bytes_max};
    $self->flush if $is_full && !$self->{depth} && !defined $self->{transaction};
    return;
}

# Dies if nothing can be recorded.
sub _ready ($self) {
    $self->{socket} or croak 'the session has ended';
    if (my $why = delete $self->{left}) { croak $why }
    return;
}

# A stub for the next result of the batch.
sub _stub ($self, $type) {
    $self->_ready;
    my $stub = bless {
        session  => $self,
        name     => '$a' . ++$self->{names},
        type     => $type,
        what     => 'value',
        frame    => $self->{frame},
        position => ++$self->{position},
    }, 'Bifrost::Stub';
    unless ($self->{block}) {
        $self->{batch}{ $stub->{position} } = $stub;
        weaken $self->{batch}{ $stub->{position} };
    }
    return $stub;
}

# Records a call: of a method of a receiver, or of a routine.
sub _call ($self, $receiver, $heading, @arguments) {
    if ($heading->{yields}) {
        my $call = $self->_text_with(defined $receiver ? $self->_name($receiver) : undef, $heading, @arguments);
        my %parts = (session => $self, call => $call, receiver => $receiver, heading => $heading, arguments => \@arguments);
        return bless \%parts, 'Bifrost::Iterator';
    }
    my $call = $self->_text_of($receiver, $heading, @arguments);
    my @results = $heading->{results}->@*;
    if (@results < 2) {
        my $stub = $self->_record($call, $results[0] // 'null', $heading->{name});
        $self->_note_failed($stub, $receiver // (), @arguments);
        return $stub;
    }
    my @stubs = map { $self->_stub($_) } @results;
    $self->_note_failed($stubs[0], $receiver // (), @arguments);
    # A failure of the call is one of all its results.
    @$_{qw(what cause)} = ($heading->{name}, $stubs[0]{position}) for @stubs;
    $self->_line(join(', ', map { $_->{name} } @stubs) . " := $call");
    return @stubs;
}

# What a stub of an earlier batch has failed with, the server does not tell again.
sub _note_failed ($self, $stub, @operands) {
    return unless grep { ref $_ eq 'Bifrost::Stub' && $_->{error} } @operands;
    my @failed = map { ref $_ eq 'Bifrost::Stub' ? $_->{error} : undef } @operands;
    $self->{failed}{ $stub->{position} } = \@failed;
    return;
}

# The text of a call that is recorded next.
sub _text_of ($self, $receiver, $heading, @arguments) {
    return $self->_text_with(defined $receiver ? $self->_receiver($receiver) : undef, $heading, @arguments);
}

# The reference to a receiver. A value that was told becomes a constant, which takes a position.
sub _receiver ($self, $stub) {
    my $name = $self->_name($stub);
    $self->_ready;
    # A flush tells the value of this stub, too.
    $self->_room(2);
    $self->{position}++ if exists +($stub->{state} // {})->{value};
    return $name;
}

# The condition of a structure: a bool is a receiver, too.
sub _condition ($self, $test) {
    return $self->_receiver($test) if ref $test eq 'Bifrost::Stub' && $test->type eq 'bool';
    my $operand = $self->_operand('bool', $test);
    $self->{position}++ unless ref $test;
    return $operand;
}

sub _text_with ($self, $receiver, $heading, @arguments) {
    my @types = $heading->{parameters}->@*;
    croak "$heading->{name} takes " . @types . ' arguments, not ' . @arguments if @types != @arguments;
    my $target = defined $receiver ? "$receiver.$heading->{name}" : $heading->{name};
    return "$target(" . join(', ', map { $self->_operand($types[$_], $arguments[$_]) } 0 .. $#types) . ')';
}

sub _send_message ($self, $receiver, $heading, @arguments) {
    $self->_line('send ' . $self->_text_of($receiver, $heading, @arguments));
    $self->{position}++;
    return;
}

# Appends a line: to the open structure, or to the batch.
sub _line ($self, $line) {
    $self->_ready;
    $self->_append($line);
    return;
}

sub _append ($self, $line) {
    if ($self->{block}) {
        push $self->{block}->@*, $line;
        return;
    }
    $self->_free if $self->{freed}->@*;
    $self->{pending} .= "$line\n";
    $self->{lines}++;
    $self->{bytes} += length $line;
    $self->_send if length $self->{pending} > $PENDING_BYTES_MAX;
    return;
}

# A limit of the session; that of another server may have none of this name.
sub _limit ($self, $name) { return $self->{limits}{$name} // 9**9**9 }

# Records a structure: whole, or not at all.
sub _structure ($self, $record) {
    $self->_ready;
    my $is_outer = !$self->{depth};
    my $max = $self->_limit('depth_max');
    croak "structures nest $max deep at most" if $self->{depth} >= $max;
    my $position = $self->{position};
    @$self{qw(block places)} = ([], []) if $is_outer;
    my $begin = $self->{block}->@*;
    local $self->{frame} = { outer => $self->{frame} };
    $self->{depth}++;
    my %left    = (session => $self, position => $position, frame => $self->{frame});
    my $guard   = bless \%left, 'Bifrost::Guard';
    my $is_done = eval { $record->(); 1 };
    my $error   = $@;
    $guard->{is_done} = 1;
    $self->{depth}--;
    $self->{frame}{is_over} = 1 if $is_outer || !$is_done;
    unless ($is_done) {
        splice $self->{block}->@*, $begin;
        $self->{position} = $position;
    }
    if ($is_outer) {
        my $lines = delete $self->{block};
        $self->_line($_) for @$lines;
    }
    die $error unless $is_done;
    return;
}

# Runs the body of a structure once.
sub _body ($self, $kind, $body) {
    local $self->{places} = [ $kind, $self->{places}->@* ];
    local $self->{in_procedure} = 1 if $kind eq 'procedure';
    my @values = $body->();
    return $values[-1];
}

sub _leave ($self, $word) {
    croak "$word stands in a loop" unless grep { $_ eq 'loop' } @{ $self->{places} // [] };
    $self->_line($word);
    return;
}

sub _outside ($self, $what) {
    croak "$what stands outside structures" if $self->{depth};
    croak "$what stands outside transactions" if defined $self->{transaction} && $what =~ /^(?:claim|flush|commit|abort|transaction|wait)$/;
    return;
}

sub _same ($self, $other) {
    $other->{session} == $self or croak 'the stub belongs to another session';
    return;
}

sub _name ($self, $stub) {
    $self->_same($stub);
    for (my $frame = $stub->{frame}; $frame; $frame = $frame->{outer}) {
        croak "the stub of $stub->{what} ended with its structure" if $frame->{is_over};
    }
    return $stub->{name};
}

# An argument of a type: a stub, or a value of Perl.
sub _operand ($self, $type, $value) {
    if (ref $value eq 'Bifrost::Stub') {
        croak "a $type is wanted, and this is a $value->{type}"
            if $BASIC{$type} && $BASIC{ $value->{type} } && $type ne $value->{type};
        return $self->_name($value);
    }
    return $self->_literal($type, $value);
}

sub _literal ($self, $type, $value) {
    if ($type eq 'null') { croak 'nil is undef' if defined $value; return 'nil' }
    croak "a $type is wanted, and this is undef" unless defined $value;
    if ($type eq 'int') {
        croak "`$value` is no int" unless $value =~ /^[+-]?\d+$/;
        return $value =~ s/^\+//r;
    }
    if ($type eq 'real') {
        croak "`$value` is no real" unless looks_like_number $value;
        my $text = sprintf '%.17g', $value;
        croak "`$value` is no finite real" if $text =~ /inf|nan/i;
        return $text =~ /[.e]/ ? $text =~ s/^([+-]?\d+)e/$1.0e/r : "$text.0";
    }
    return $value ? 'true' : 'false' if $type eq 'bool';
    return _text($value) if $type eq 'string' && !ref $value;
    if ($type eq 'char') {
        croak 'a char is one character' unless length $value == 1;
        return sprintf q('\u{%x}'), ord $value;
    }
    return 'x"' . unpack('H*', $value) . '"' if $type eq 'bytes';
    my ($name, @parts) = _parts($type);
    if ($name =~ /^(sequence|array|vector|list)$/) {
        ref $value eq 'ARRAY' or croak "a $type is an array reference";
        return '{' . join(', ', map { $self->_operand($parts[0][1], $_) } @$value) . '}';
    }
    if ($name =~ /^(struct|record)$/) {
        ref $value eq 'HASH' or croak "a $type is a hash reference";
        my %known = map { $_->[0] => 1 } @parts;
        croak "a $type has no field `$_`" for sort grep { !$known{$_} } keys %$value;
        return '{' . join(', ', map {
            croak "a $type has the field `$_->[0]`" unless exists $value->{ $_->[0] };
            "$_->[0]: " . $self->_operand($_->[1], $value->{ $_->[0] })
        } @parts) . '}';
    }
    if ($name =~ /^(oneof|maybe)$/) {
        ref $value eq 'HASH' && keys %$value == 1 or croak "a $type is a hash reference with its tag";
        my ($tag) = keys %$value;
        my %tags = $name eq 'maybe' ? (some => $parts[0][1], none => 'null') : map { @$_ } @parts;
        croak "a $type has no tag `$tag`" unless $tags{$tag};
        return "{$tag: " . $self->_operand($tags{$tag}, $value->{$tag}) . '}';
    }
    croak 'an any is a stub: make one with `value(TYPE => ...)`' if $type eq 'any';
    croak "a $type is a stub, not `$value`";
}

# Checks a name that stands in a line as it is.
sub _word ($what, $name) {
    croak "`$name` is no name of $what" unless $name =~ /^[a-z_]\w*\z/ai;
    return;
}

# Splits a type: its name, and pairs of a field's name and its type.
sub _parts ($type) {
    my ($name, $inner) = $type =~ /^([\w.]+)\[(.*)\]$/ or return ($type);
    my ($depth, $part, @parts) = (0, '');
    for my $char (split //, $inner) {
        $depth++ if $char eq '[';
        $depth-- if $char eq ']';
        if ($char eq ',' && !$depth) { push @parts, $part; $part = ''; next }
        $part .= $char;
    }
    push @parts, $part;
    return ($name, map { s/^\s+|\s+$//gr =~ /^(?:(\w+):\s*)?(.*)$/ ? [ $1, $2 ] : () } @parts);
}

sub _text ($text) {
    return JSON::PP->new->allow_nonref->ascii->encode("$text");
}

# ----- types

# The heading of a method, from what the server says of the type.
sub _heading ($self, $type, $method) {
    my $methods = $self->_methods($type);
    return $methods->{$method} // croak "$type has no method `$method`; it has: " . join ', ', sort keys %$methods;
}

# The methods of a type. Dies if the server does not have it.
sub _methods ($self, $type) {
    croak "`$type` is no type" unless $type =~ /^[\w.]+(?:\[[\w.,:\[\]() ]*\])?\z/a;
    return $self->{types}{$type} //= eval { _headings($self->describe($type)) }
        // (ref $@ eq 'Bifrost::Error' ? croak "the server has no type `$type`" : die $@);
}

sub _routines ($self) {
    return $self->{types}{''} //= _headings(join "\n", map { "  $_" } split /\n/, $self->describe);
}

# Reads lines as `  fetch (user: string) returns (DataElem) signals (not_found)`.
sub _headings ($text) {
    my %headings;
    for my $line (split /\n/, $text) {
        my ($name, $rest) = $line =~ /^  ([\w.]+) (\(.*)$/ or next;
        my ($parameters, $more) = _group($rest);
        my $heading = { name => $name, parameters => [ map { $_->[1] } $parameters->@* ], results => [], signals => [] };
        while ($more =~ /^\s*(returns|yields|signals) (\(.*)$/) {
            my $word = $1;
            (my $group, $more) = _group($2);
            if ($word eq 'signals') { $heading->{signals} = [ map { $_->[1] } @$group ] }
            else { @$heading{qw(results yields)} = ([ map { $_->[1] } @$group ], $word eq 'yields') }
        }
        $headings{$name} = $heading;
    }
    return \%headings;
}

# Reads a list in parentheses: pairs of names and types, and what follows it.
sub _group ($text) {
    my ($depth, $at) = (0, 0);
    for ($at = 0; $at < length $text; $at++) {
        my $char = substr $text, $at, 1;
        $depth++ if $char =~ /[(\[]/;
        $depth-- if $char =~ /[)\]]/;
        last unless $depth;
    }
    my $inner = substr $text, 1, $at - 1;
    my (undef, @parts) = _parts("group[$inner]");
    return ([ grep { length $_->[1] } @parts ], substr $text, $at + 1);
}

# ----- the conversation

sub _free ($self) {
    my @names = splice $self->{freed}->@* or return;
    $self->{pending} .= 'free ' . join(', ', @names) . "\n";
    return;
}

# Asks for something that is answered at once, in the middle of a batch, too; returns a part of the
# answer, or all of it.
sub _ask ($self, $line, $part = undef) {
    $self->_free unless $self->{block};
    $self->{pending} .= "$line\n";
    my $answer = $self->_answer;
    $self->_closed($answer) if $answer->{error};
    return defined $part ? $self->_part($answer, $part) : $answer;
}

sub _part ($self, $answer, $part) {
    return $answer->{$part} // $self->_lost("the server has sent an answer without $part");
}

sub _send ($self) {
    my $socket = $self->{socket} or croak 'the session has ended';
    my $bytes = $self->{pending};
    utf8::encode($bytes);
    $self->{sent} += $bytes =~ tr/\n//;
    $self->{pending} = '';
    local $SIG{PIPE} = 'IGNORE';
    while (length $bytes) {
        my $count = syswrite $socket, $bytes;
        defined $count or $self->_lost("the server takes no more: $!");
        substr $bytes, 0, $count, '';
    }
    return;
}

# Sends what waits, and reads a line of JSON.
sub _answer ($self) {
    $self->_send;
    my $end = $self->{timeout} ? time + $self->{timeout} + $self->{waits} : undef;
    my $at;
    while (($at = index $self->{input}, "\n") < 0) {
        $self->_lost('an answer is too long') if length $self->{input} > $ANSWER_BYTES_MAX;
        if (defined $end) {
            my $wanted = '';
            vec($wanted, fileno $self->{socket}, 1) = 1;
            my $left = $end - time;
            $self->_lost("no answer came within $self->{timeout} seconds")
                unless $left > 0 && select $wanted, undef, undef, $left;
        }
        my $count = sysread $self->{socket}, $self->{input}, 1 << 16, length $self->{input};
        $self->_lost(defined $count ? 'the server has ended the session' : "the session is lost: $!") unless $count;
    }
    my $line = substr $self->{input}, 0, $at + 1, '';
    my $answer = eval { $JSON->decode($line) };
    $self->_lost('the server has sent a line that is no answer') unless ref $answer eq 'HASH';
    for my $list (grep { exists $answer->{$_} } qw(results exceptions values)) {
        my $items = $answer->{$list};
        next if $list eq 'values' && !exists $answer->{more};
        $self->_lost("the server has sent an answer whose $list are no list")
            unless ref $items eq 'ARRAY' && !grep { ref ne 'HASH' } @$items;
    }
    return $answer;
}

# The items of a list of an answer.
sub _items ($self, $answer, $list) {
    $self->_lost("the server has sent an answer without $list") unless $answer->{$list};
    return $answer->{$list}->@*;
}

sub _lost ($self, $why) {
    delete $self->{socket};
    die Bifrost::ConnectError->new($why);
}

# An answer that is an error: of a line, which has no effect, or of the session, which has ended.
sub _closed ($self, $answer) {
    my $text = $answer->{text} // 'no text';
    die Bifrost::Error->new("the server does not take a line, column $answer->{column}: $text")
        if $answer->{error} eq 'BadLine' && ($answer->{line} // 0) == $self->{sent};
    $self->_lost("$answer->{error}: $text");
}

# Notices that Perl has left a structure while it was recorded, by `last` or `next`.
package Bifrost::Guard;

use v5.36;

sub DESTROY ($guard) {
    return if $guard->{is_done};
    my $session = $guard->{session};
    $_->{is_over} = 1 for $guard->{frame};
    delete @$session{qw(block depth)};
    $session->{position} = $guard->{position};
    $session->{left} = '`last` or `next` has left a structure, which was dropped: use break or continue of the session';
    return;
}

# A result of a batch that may still be on its way.
package Bifrost::Stub;

use v5.36;

use Carp qw(croak);
use overload
    '+'    => sub ($stub, $other, $swapped) { $stub->_operator('add', $other, $swapped) },
    '-'    => sub ($stub, $other, $swapped) { $stub->_operator('sub', $other, $swapped) },
    '*'    => sub ($stub, $other, $swapped) { $stub->_operator('mul', $other, $swapped) },
    '/'    => sub ($stub, $other, $swapped) { $stub->_operator('div', $other, $swapped) },
    '%'    => sub ($stub, $other, $swapped) { $stub->_operator('mod', $other, $swapped) },
    '.'    => sub ($stub, $other, $swapped) { $stub->_operator('concat', $other, $swapped) },
    '<'    => sub ($stub, $other, $swapped) { $stub->_operator($swapped ? 'gt' : 'lt', $other, 0) },
    '<='   => sub ($stub, $other, $swapped) { $stub->_operator($swapped ? 'ge' : 'le', $other, 0) },
    '>'    => sub ($stub, $other, $swapped) { $stub->_operator($swapped ? 'lt' : 'gt', $other, 0) },
    '>='   => sub ($stub, $other, $swapped) { $stub->_operator($swapped ? 'le' : 'ge', $other, 0) },
    '=='   => sub ($stub, $other, $) { $stub->_operator('equal', $other, 0) },
    'eq'   => sub ($stub, $other, $) { $stub->_operator('equal', $other, 0) },
    'neg'  => sub ($stub, $, $) { $stub->negate },
    'bool' => sub ($stub, @) { croak $stub->_unknown('truth value: use if, and, or of the session') },
    '""'   => sub ($stub, @) { croak $stub->_unknown('text: claim it') },
    '0+'   => sub ($stub, @) { croak $stub->_unknown('number: claim it') },
    '@{}'  => sub ($stub, @) { croak $stub->_unknown('elements: use foreach') },
    '&{}'  => sub ($stub, @) { croak $stub->_unknown('code') };

our $AUTOLOAD;
our @CARP_NOT = qw(Bifrost Bifrost::Sender overload);

sub _unknown ($stub, $what) { return "the result of $stub->{what} may be on its way, and has no $what" }

sub _operator ($stub, $method, $other, $swapped) {
    return $stub->{session}->_call($stub, $stub->_heading($method), $other) unless $swapped;
    my $cell = $stub->{session}->cell($stub->{type}, $other);
    return $cell->get->$method($stub);
}

sub _heading ($stub, $method) { return $stub->{session}->_heading($stub->{type}, $method) }

# The name of its type.
sub type ($stub) { return $stub->{type} }

# The value, once the server has told it; sends the batch if it has not. Dies with the exception.
# The claim of an object is the stub itself.
sub claim ($stub) {
    my $session = $stub->{session};
    $session->_outside('claim');
    $session->flush unless $stub->{state} || $stub->{error};
    if (my $error = $stub->{error}) {
        my %told = map { $_ => 1 } $error, $error->causes;
        $session->{untold} = [ grep { !$told{$_} } $session->{untold}->@* ];
        die $error;
    }
    my $result = $stub->{state}
        or die Bifrost::Error->new("the result of $stub->{what} was not told: its structure has ended");
    return Bifrost::Value::rows($stub, $result->{rows}) if $stub->{columns};
    return exists $result->{value} ? Bifrost::Value::read($stub->{type}, $result->{value}) : $stub;
}

# Takes an object as one of a type, or tests if it is one.
sub as ($stub, $type) { return $stub->_cast('as', $type, $type) }
sub is ($stub, $type) { return $stub->_cast('is', $type, 'bool') }

sub _cast ($stub, $word, $type, $result) {
    my $session = $stub->{session};
    $session->_methods($type);
    return $session->_record($session->_receiver($stub) . " $word $type", $result);
}

# Calls a method by its name: for those that are called like the methods here.
sub call ($stub, $method, @arguments) {
    return $stub->{session}->_call($stub, $stub->_heading($method), @arguments);
}

# Sends an actor a message that nobody waits for: `$clock->send->bid(70)`.
sub send ($stub) { return bless { stub => $stub }, 'Bifrost::Sender' }

# The methods of the server's types. Each becomes one of this package when it is called first.
sub AUTOLOAD ($stub, @arguments) {
    my $method = $AUTOLOAD =~ s/.*:://r;
    $stub->_heading($method);
    no strict 'refs';
    *$method = sub ($stub, @arguments) {
        my $session = $stub->{session};
        my $heading = ($session->{types}{ $stub->{type} } // {})->{$method} // $stub->_heading($method);
        return $session->_call($stub, $heading, @arguments);
    };
    return $stub->$method(@arguments);
}

sub DESTROY ($stub) {
    my $session = $stub->{session} or return;
    return if $stub->{frame} || !$session->{socket};
    push $session->{freed}->@*, $stub->{name};
    return;
}

# Sends messages to an actor.
package Bifrost::Sender;

use v5.36;

our $AUTOLOAD;

sub AUTOLOAD ($sender, @arguments) {
    my $stub = $sender->{stub};
    $stub->{session}->_send_message($stub, $stub->_heading($AUTOLOAD =~ s/.*:://r), @arguments);
    return;
}

sub DESTROY { }

# The call of an iterator, which `foreach` and `rows` run.
package Bifrost::Iterator;

use v5.36;

use Carp qw(croak);

# Sends the batch, and returns the first values, `$max` at most.
sub list ($iterator, $max = 1000) {
    my $session = $iterator->{session};
    $session->flush;
    my $answer = $session->_ask("list $max $iterator->{call}");
    if (my ($exception) = $session->_items($answer, 'exceptions')) {
        die Bifrost::Exception->new($exception, {});
    }
    my ($type) = $iterator->{heading}{results}->@*;
    my @values = $session->_items($answer, 'values');
    croak "the values of $iterator->{heading}{name} are objects: use foreach or rows" if grep { exists $_->{handle} } @values;
    return map { Bifrost::Value::read($type, $_->{value}) } @values;
}

package Bifrost::Value;

use v5.36;

my %REALS = (inf => 9**9**9, '-inf' => -9**9**9, NaN => -sin 9**9**9);

# A value of JSON as one of Perl.
sub read ($type, $value) {
    return pack 'H*', $value->{bytes} if $type eq 'bytes' && ref $value eq 'HASH';
    return $REALS{$value} // $value if $type eq 'real';
    return $value;
}

sub rows ($stub, $rows) {
    my @types = $stub->{columns}->@*;
    return [ map { my $row = $_; [ map { Bifrost::Value::read($types[$_], $row->[$_]) } 0 .. $#types ] } @$rows ];
}

# An error with a text; `"$error"` is that text.
package Bifrost::Error;

use v5.36;

use overload '""' => sub ($error, @) { $error->{text} }, fallback => 1;

sub new ($class, $text) { return bless { text => $text }, $class }

# There is no session, or no session any more.
package Bifrost::ConnectError;

our @ISA = ('Bifrost::Error');

# An exception that a call has signalled, or the reason why it was not run.
package Bifrost::Exception;

use v5.36;

our @ISA = ('Bifrost::Error');

# `$causes` has the exceptions of a batch as they were told, by their calls; `$failed` those of its
# receivers and arguments from earlier batches.
sub new ($class, $told, $causes, $failed = {}) {
    my ($root, @via) = ($told);
    while (my $unhandled = $root->{unhandled}) {
        push @via, $root;
        if (my $earlier = ($failed->{ $root->{call} } // [])->[ $unhandled->{argument} ]) {
            $root = { %{ $earlier->{told} } };
            push @via, map { { name => $_ } } $earlier->via;
            last;
        }
        # A cause stands before what was not run because of it.
        my $cause = $causes->{ $unhandled->{cause} };
        undef $cause unless $cause && $unhandled->{cause} < ($root->{call} // 0);
        $root = $cause or last;
    }
    $root //= { name => 'an earlier call' };
    my $signal = $root->{signal} // $root->{refused} // 'unhandled_exc';
    my $text = defined $root->{refused} ? "$root->{name} was refused: $root->{text}" : "$root->{name} signals $signal";
    my @values = map { $_->{value} // $_->{handle} } @{ $root->{values} // [] };
    $text .= '(' . join(', ', map { $_ // 'nil' } @values) . ')' if @values;
    $text .= '; not run: ' . join ', ', map { $_->{name} } reverse @via if @via;
    return bless {
        text => $text, call => $told->{call}, told => $root, name => $signal, values => \@values,
        via => [ map { $_->{name} } @via ], rounds => $root->{rounds} // [], calls => [ map { $_->{call} } grep { $_->{call} } @via, $root ],
    }, $class;
}

sub lost ($class, $what) {
    return bless { text => "$what was not run", name => 'unhandled_exc', values => [], via => [], calls => [] }, $class;
}

# The name of the exception; its values; the calls that were not run because of it.
sub name ($error)   { return $error->{name} }
sub values ($error) { return $error->{values}->@* }
sub via ($error)    { return $error->{via}->@* }
# The rounds of the loops around the call, from 1: the outermost first.
sub rounds ($error) { return @{ $error->{rounds} // [] } }
# The exceptions that are told with this one.
sub causes ($error) { return @{ $error->{causes} // [] } }

1;
