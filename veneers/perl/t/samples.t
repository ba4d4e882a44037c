# The samples print what they promise, and so does the program of the README.

use v5.36;

use FindBin;
use lib "$FindBin::Bin/lib";

use Served;
use Test::More;

my $here = "$FindBin::Bin/..";

sub content ($path) {
    open my $file, '<:encoding(UTF-8)', $path or die "$path: $!\n";
    local $/;
    return <$file>;
}

# Runs a program of Perl, and returns what it prints.
sub output ($program, $url) {
    local $ENV{BIFROST_URL} = $url;
    open my $output, '-|:encoding(UTF-8)', $^X, (map { "-I$_" } @INC), $program or die "no process: $!\n";
    local $/;
    my $text = <$output>;
    close $output or diag "$program fails";
    return $text;
}

for my $sample (qw(auctions database lists points)) {
    my $server = serve("examples/$sample/$sample.theta");
    my $folder = "$here/samples/$sample";
    is output("$folder/$sample.pl", $server->url), content("$folder/expected.txt"), $sample;
}

my $readme = content("$here/README.md");
my ($program) = $readme =~ /```perl\n(.*?)```/s or die "the README has no program\n";
my ($printed) = $readme =~ /```text\n(.*?)```/s or die "the README has no output\n";
my $server = serve('examples/database/database.theta');
my $path   = $server->folder . '/client.pl';
open my $file, '>', $path or die "$path: $!\n";
print $file $program;
close $file;
is output($path, $server->url), $printed, 'the README';

done_testing;
