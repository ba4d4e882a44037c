//! The closed queue of clients and tasks: exact mean value analysis.
//!
//! Each of N clients thinks, then sends an invocation, and waits for its answer. The invocations
//! are in one queue, from which M tasks take them in order. With exponential times this is the
//! machine-repair model (M/M/M//N), a network of a station with M servers and one of delays. The
//! recursion goes from no client to N and subtracts nothing, so that it is stable.
//!
//! An invocation meets the network in the state that it would have with one client less (the
//! arrival theorem). So both counts of 004 section 6.2 follow from one distribution: QLENGTH is
//! taken when an invocation arrives. NACTIVE is taken when a task dequeues one: at once if fewer
//! than M are active, else when another one ends, while M - 1 are.

/// The figures that the model predicts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prediction {
    /// Invocations that wait when another one arrives, without it: QLENGTH.
    pub queue_length: f64,
    /// Active tasks when another one dequeues an invocation, without it: NACTIVE.
    pub active: f64,
    /// Invocations in each unit of the times.
    pub throughput: f64,
}

/// Predicts the figures of so many clients and tasks. Nothing if the service time is not positive
/// or the think time is negative: it was not measured.
pub fn predict(clients: u32, tasks: u32, service: f64, think: f64) -> Option<Prediction> {
    let is_measured = service > 0.0 && service.is_finite() && think >= 0.0 && think.is_finite();
    if !is_measured || clients == 0 || tasks == 0 {
        return None;
    }
    // Invocations in each unit of time while j of them are at the server.
    let rate = |j: usize| j.min(tasks as usize) as f64 / service;
    // The probability of j invocations at the server, j = 0.., with the clients up to now.
    let mut states = vec![1.0];
    let mut met = Vec::new();
    let mut throughput = 0.0;
    for n in 1..=clients as usize {
        met = states;
        let residence: f64 = met.iter().enumerate().map(|(j, p)| (j + 1) as f64 / rate(j + 1) * p).sum();
        throughput = n as f64 / (think + residence);
        states = vec![throughput * think / n as f64 * met[0]];
        states.extend(met.iter().enumerate().map(|(j, p)| throughput / rate(j + 1) * p));
    }
    let mean = |value: &dyn Fn(usize) -> usize| -> f64 {
        met.iter().enumerate().map(|(j, p)| value(j) as f64 * p).sum()
    };
    Some(Prediction {
        queue_length: mean(&|j| j.saturating_sub(tasks as usize)),
        active: mean(&|j| j.min(tasks as usize - 1)),
        throughput,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
    }

    /// Returns the probabilities of j invocations at the server, by the closed form of the
    /// machine-repair model.
    fn closed_form(clients: u32, tasks: u32, service: f64, think: f64) -> Vec<f64> {
        let ratio = service / think;
        let mut weights = vec![1.0];
        for j in 1..=clients {
            let last = weights[j as usize - 1];
            weights.push(last * f64::from(clients - j + 1) * ratio / f64::from(j.min(tasks)));
        }
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn one_task_is_the_machine_repair_model() {
        // Textbook: two machines, one repairman, times of 1 and 1: p = (1/5, 2/5, 2/5).
        let two = closed_form(2, 1, 1.0, 1.0);
        assert!(two.iter().zip([0.2, 0.4, 0.4]).all(|(p, known)| near(*p, known)), "{two:?}");
        // The throughput is (1 - p0) / service; of three clients each meets the states of two.
        let of = |clients| predict(clients, 1, 1.0, 1.0).unwrap();
        assert!(near(of(2).throughput, 0.8) && near(of(3).queue_length, 0.4), "{:?}", of(3));
        assert_eq!(of(3).active, 0.0);
    }

    #[test]
    fn all_sizes_agree_with_the_closed_form() {
        for clients in [1, 2, 3, 4, 8, 30, 64] {
            for tasks in [1, 2, 3, 4, 8, 64] {
                for (service, think) in [(1.0, 0.01), (1.0, 1.0), (0.02, 3.0), (2100.0, 90.0), (1.0, 1e4)] {
                    let predicted = predict(clients, tasks, service, think).unwrap();
                    let all = closed_form(clients, tasks, service, think);
                    let met = closed_form(clients - 1, tasks, service, think);
                    let mean = |states: &[f64], value: &dyn Fn(u32) -> u32| -> f64 {
                        states.iter().enumerate().map(|(j, p)| f64::from(value(j as u32)) * p).sum()
                    };
                    let throughput = mean(&all, &|j| j.min(tasks)) / service;
                    let queue_length = mean(&met, &|j| j.saturating_sub(tasks));
                    let active = mean(&met, &|j| j.min(tasks - 1));
                    let case = format!("{clients} clients, {tasks} tasks, {service}, {think}: {predicted:?}");
                    assert!(near(predicted.throughput, throughput), "{case} {throughput}");
                    assert!(near(predicted.queue_length, queue_length), "{case} {queue_length}");
                    assert!(near(predicted.active, active), "{case} {active}");
                }
            }
        }
    }

    #[test]
    fn there_is_no_queue_with_a_task_for_each_client() {
        for clients in 1..=6 {
            let predicted = predict(clients, 6, 2.0, 3.0).unwrap();
            assert_eq!(predicted.queue_length, 0.0);
            assert!(near(predicted.throughput, f64::from(clients) / 5.0), "{predicted:?}");
        }
    }

    #[test]
    fn clients_that_do_not_think_keep_all_tasks_busy() {
        let predicted = predict(4, 3, 2.0, 0.0).unwrap();
        assert!(near(predicted.queue_length, 0.0) && near(predicted.active, 2.0), "{predicted:?}");
        let predicted = predict(9, 3, 2.0, 0.0).unwrap();
        assert!(near(predicted.queue_length, 5.0) && near(predicted.throughput, 1.5), "{predicted:?}");
    }

    #[test]
    fn times_that_were_not_measured_predict_nothing() {
        for (service, think) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, -0.1), (1.0, f64::NAN)] {
            assert_eq!(predict(4, 2, service, think), None, "{service} {think}");
        }
        assert_eq!((predict(0, 1, 1.0, 1.0), predict(1, 0, 1.0, 1.0)), (None, None));
    }

    /// Numbers between 0 and 1, the same in each run.
    struct Random(u64);

    impl Random {
        fn exponential(&mut self, mean: f64) -> f64 {
            // splitmix64
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
            -mean * (1.0 - unit).ln()
        }
    }

    /// Counts QLENGTH, NACTIVE and the throughput of a simulated server as a server counts them.
    fn simulate(clients: u32, tasks: u32, service: f64, think: f64) -> Prediction {
        const INVOCATIONS: u32 = 200_000;
        let mut random = Random(7);
        let mut thinking: Vec<f64> = (0..clients).map(|_| random.exponential(think)).collect();
        let mut running: Vec<f64> = Vec::new();
        let (mut waiting, mut now) = (0_u32, 0.0);
        let (mut queue_sum, mut active_sum, mut taken) = (0.0, 0.0, 0);
        let first = |times: &[f64]| times.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        while taken < INVOCATIONS {
            match (first(&thinking), first(&running)) {
                (Some((at, arrives)), ends) if ends.is_none_or(|(_, ends)| arrives <= ends) => {
                    now = arrives;
                    thinking.swap_remove(at);
                    queue_sum += f64::from(waiting);
                    waiting += 1;
                }
                (_, Some((at, ends))) => {
                    now = ends;
                    running.swap_remove(at);
                    thinking.push(now + random.exponential(think));
                }
                (_, None) => break,
            }
            if waiting > 0 && running.len() < tasks as usize {
                waiting -= 1;
                taken += 1;
                active_sum += running.len() as f64;
                running.push(now + random.exponential(service));
            }
        }
        let count = f64::from(taken);
        Prediction { queue_length: queue_sum / count, active: active_sum / count, throughput: count / now }
    }

    #[test]
    fn a_server_that_counts_finds_the_prediction() {
        for (clients, tasks) in [(4, 1), (4, 2), (8, 3), (4, 4)] {
            for (service, think) in [(1.0, 1.0), (1.0, 0.1), (1.0, 6.0)] {
                let (found, predicted) =
                    (simulate(clients, tasks, service, think), predict(clients, tasks, service, think));
                let predicted = predicted.unwrap();
                let close = |a: f64, b: f64| (a - b).abs() <= 0.02 + 0.02 * b;
                let case = format!("{clients} {tasks} {think}: {found:?} {predicted:?}");
                assert!(close(found.queue_length, predicted.queue_length), "{case}");
                assert!(close(found.active, predicted.active), "{case}");
                assert!(close(found.throughput, predicted.throughput), "{case}");
            }
        }
    }
}
