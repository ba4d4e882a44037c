package Served;

# Servers for tests: each has a program, listens on a unix socket, and ends with its value.

use v5.36;

use Exporter qw(import);
use File::Basename qw(dirname);
use File::Spec;
use File::Temp qw(tempdir);
use POSIX ();

our @EXPORT = qw(serve repository);

# The folder of the repository.
sub repository () { return File::Spec->rel2abs(dirname(__FILE__) . '/../../../..') }

# Starts `$BIFROST_BIN serve PROGRAM`, with further arguments, and waits until it is ready.
sub serve ($program, @arguments) {
    my $bifrost = $ENV{BIFROST_BIN} or die "BIFROST_BIN is the path of the program bifrost\n";
    my $folder  = tempdir(CLEANUP => 1);
    my $url     = "unix://$folder/socket";
    my @command = ($bifrost, 'serve', '--listen', $url, @arguments, repository . "/$program");
    my $pid     = open(my $output, '-|') // die "no process: $!";
    if (!$pid) {
        # The server would take them for settings.
        delete @ENV{ grep { /^BIFROST_/ } keys %ENV };
        open STDERR, '>', "$folder/log";
        chdir $folder;
        exec @command or POSIX::_exit(127);
    }
    while (my $line = <$output>) {
        return bless { pid => $pid, url => $url, output => $output, folder => $folder }, 'Served' if $line =~ /^ready /;
    }
    open my $log, '<', "$folder/log" or die "the server of $program does not start\n";
    die "the server of $program does not start: ", <$log>;
}

sub url ($self)    { return $self->{url} }
sub pid ($self)    { return $self->{pid} }
sub folder ($self) { return $self->{folder} }

sub DESTROY ($self) {
    local ($?, $!);
    kill 'TERM', $self->{pid};
    waitpid $self->{pid}, 0;
}

1;
