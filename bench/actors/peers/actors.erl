%% The cases of `bifrost bench actors` in Erlang: an actor is a process.
%%
%% `erl -noshell -run actors main CASE` reads a line N for each run and answers with the processor time in nanoseconds and the result.
-module(actors).
-export([main/1]).

main([Case]) ->
    answer(list_to_atom(Case)).

answer(Case) ->
    case io:get_line("") of
        eof -> halt(0);
        {error, _} -> halt(1);
        Line ->
            N = list_to_integer(string:trim(Line)),
            {Start, _} = statistics(runtime),
            Result = in_process(fun() -> run(Case, N) end),
            {End, _} = statistics(runtime),
            io:format("~b ~b~n", [(End - Start) * 1000000, Result]),
            answer(Case)
    end.

%% Each run begins with an empty mailbox and a new heap.
in_process(Work) ->
    Asker = self(),
    Process = spawn(fun() -> Asker ! {self(), Work()} end),
    receive {Process, Result} -> Result end.

run(send, N) -> send(N);
run('send-known', N) -> send(N);
run(remote, N) -> send(N);
run(queue, N) -> queue(N);
run(request, N) -> request(N);
run('remote-request', N) -> request(N);
run(suspend, N) -> suspend(N);
run(create, N) -> create(N);
run(idle, N) -> idle(N);
run(fib, N) -> first(fun(Asker) -> fib(N, Asker) end);
run(queens12, N) -> queens(N);
run(queens13, N) -> queens(N);
run(quadrature, N) -> quadrature(N).

%% Requests and their answers.
ask(Process, What) ->
    Process ! {What, self()},
    receive {Process, Answer} -> Answer end.

counter(Sum, Source) ->
    receive
        {add, By} -> counter(Sum + By, Source);
        {{add, By}, Asker} ->
            Asker ! {self(), Sum + By},
            counter(Sum + By, Source);
        {value, Asker} ->
            Asker ! {self(), Sum},
            counter(Sum, Source);
        {{ask, Count}, Asker} ->
            ask(Source, {flood, Count}),
            Asker ! {self(), asked},
            counter(Sum, Source);
        stop -> ok
    end.

stopped(Processes, Result) ->
    [Process ! stop || Process <- Processes],
    Result.

send(N) ->
    C = spawn(fun() -> counter(0, none) end),
    sends(C, 1, N),
    stopped([C], ask(C, value)).

sends(_, I, N) when I > N -> ok;
sends(C, I, N) ->
    C ! {add, I band 7},
    sends(C, I + 1, N).

queue(N) ->
    Source = spawn(fun source/0),
    C = spawn(fun() -> counter(0, Source) end),
    stopped([C, Source], floods(C, N div 1000, 0)).

source() ->
    receive
        {{flood, Count}, C} ->
            sends(C, 1, Count),
            C ! {self(), flooded},
            source();
        stop -> ok
    end.

floods(_, 0, Sum) -> Sum;
floods(C, Floods, _) ->
    ask(C, {ask, 1000}),
    floods(C, Floods - 1, ask(C, value)).

request(N) ->
    C = spawn(fun() -> counter(0, none) end),
    stopped([C], requests(C, 1, N, 0)).

requests(_, I, N, Last) when I > N -> Last;
requests(C, I, N, Last) -> requests(C, I + 1, N, ask(C, {add, (Last + I) band 7})).

suspend(N) ->
    H = spawn(fun holder/0),
    A = spawn(fun() -> asker(0) end),
    stopped([H, A], late(A, H, 1, N, 0)).

late(_, _, I, N, Sum) when I > N -> Sum;
late(A, H, I, N, _) ->
    A ! {ask, H},
    H ! {give, I band 7},
    late(A, H, I + 1, N, ask(A, value)).

holder() ->
    receive
        {take, Asker} ->
            receive {give, V} -> Asker ! {self(), V} end,
            holder();
        stop -> ok
    end.

asker(Sum) ->
    receive
        {ask, H} -> asker(Sum + ask(H, take));
        {value, Asker} ->
            Asker ! {self(), Sum},
            asker(Sum);
        stop -> ok
    end.

cell(Before, First, Second) ->
    receive
        {value, Asker} ->
            Asker ! {self(), First + Second},
            cell(Before, First, Second);
        stop -> Before
    end.

create(N) ->
    Last = creates(0, N),
    stopped([Last], ask(Last, value)).

creates(I, N) ->
    Cell = spawn(fun() -> cell(none, I, I + 1) end),
    case I of
        N -> Cell;
        _ ->
            %% Nobody else ends it.
            Cell ! stop,
            creates(I + 1, N)
    end.

idle(N) -> ask(idles(none, 1, N), value).

idles(Before, I, N) when I > N -> Before;
idles(Before, I, N) -> idles(spawn(fun() -> cell(Before, 0, I) end), I + 1, N).

first(Work) ->
    Asker = self(),
    Process = spawn(fun() -> Work(Asker) end),
    receive {Process, Answer} -> Answer end.

fib(N, Asker) when N < 2 -> Asker ! {self(), N};
fib(N, Asker) ->
    Self = self(),
    One = spawn(fun() -> fib(N - 1, Self) end),
    Two = spawn(fun() -> fib(N - 2, Self) end),
    Asker ! {Self, sum([One, Two], 0)}.

sum([], Sum) -> Sum;
sum([Process | Rest], Sum) ->
    receive {Process, Answer} -> sum(Rest, Sum + Answer) end.

queens(N) -> first(fun(Asker) -> queen(0, 0, 0, (1 bsl N) - 1, Asker) end).

queen(Col, Diag1, Diag2, MaxCol, Asker) ->
    C = Col bor Diag1 bor Diag2,
    {Sols, Asked} = place(Col, Diag1, Diag2, MaxCol, C, (C + 1) band bnot C, 0, []),
    Asker ! {self(), sum(Asked, Sols)}.

place(_, _, _, MaxCol, _, C1, Sols, Asked) when C1 > MaxCol -> {Sols, Asked};
place(Col, Diag1, Diag2, MaxCol, C, C1, Sols, Asked) ->
    Next = ((C1 bsl 1) + C) band bnot C,
    case Col bor C1 of
        MaxCol -> place(Col, Diag1, Diag2, MaxCol, C, Next, Sols + 1, Asked);
        Taken ->
            Self = self(),
            Down1 = ((Diag1 bor C1) bsl 1) band MaxCol,
            Down2 = (Diag2 bor C1) bsr 1,
            Queen = spawn(fun() -> queen(Taken, Down1, Down2, MaxCol, Self) end),
            place(Col, Diag1, Diag2, MaxCol, C, Next, Sols, [Queen | Asked])
    end.

f(X, Often) ->
    case X =< 5.0 * math:pi() of
        true -> 1000.0;
        false -> abs(1000.0 * math:sin(Often * X) + 1000.0)
    end.

simpson(A, B, Often) -> (B - A) / 6.0 * (f(A, Often) + 4.0 * f((A + B) / 2.0, Often) + f(B, Often)).

area(A, B, Often, Bound, Asker) ->
    M = (A + B) / 2.0,
    Halves = simpson(A, M, Often) + simpson(M, B, Often),
    case abs(Halves - simpson(A, B, Often)) =< Bound orelse M =< A orelse M >= B of
        true -> Asker ! {self(), Halves};
        false ->
            Self = self(),
            Right = spawn(fun() -> area(M, B, Often, Bound / 2.0, Self) end),
            Left = spawn(fun() -> area(A, M, Often, Bound / 2.0, Self) end),
            Asker ! {Self, sum([Left, Right], 0.0)}
    end.

quadrature(N) ->
    Self = self(),
    Often = 7.3 * N,
    Step = 5.2 * math:pi() / 8.0,
    Part = fun(I) -> spawn(fun() -> area(Step * I, Step * I + Step, Often, 0.01, Self) end) end,
    round(sum([Part(I) || I <- lists:seq(0, 7)], 0.0)).
