;;; auctions.el --- Actors  -*- lexical-binding: t; -*-

;;; Commentary:

;; Requests that run at the same time, and messages; with examples/auctions/auctions.theta.

;;; Code:

(require 'bifrost)

(bifrost-with-session (s (getenv "BIFROST_URL"))
  ;; Two auctions.  Their references are used before they are known, and the first two bids run at
  ;; the same time.
  (let* ((house (bifrost-lookup s "house" 'House))
         (lamp (bifrost-> house (open "lamp" 10)))
         (clock (bifrost-> house (open "clock" 50)))
         (first (bifrost-> lamp (bid 12)))
         (second (bifrost-> clock (bid 60))))
    (princ (format "bids: %d and %d\n" (bifrost-claim first) (bifrost-claim second)))

    ;; A bid that is too low is an exception of the call; the rest goes on.
    (let ((low (bifrost-> lamp (bid 11))) (price (bifrost-> clock price)))
      (condition-case error (bifrost-claim low)
        (bifrost-signal-too_low
         (princ (format "too low: %d is offered\n" (car (bifrost-error-values error))))))
      (princ (format "the clock: %d\n" (bifrost-claim price))))

    ;; Bids in a loop: all are sent before the first is awaited.  Each failure says its round.
    (bifrost-foreach (n (bifrost-> (bifrost-value s 'int 1) (to 5)))
      (bifrost-run lamp 'bid (bifrost* n 5)))
    (dolist (error (bifrost-flush s))
      (princ (format "round %d: %s (%d)\n" (car (bifrost-error-rounds error))
                     (bifrost-error-name error) (car (bifrost-error-values error)))))
    (princ (format "the lamp: %d\n" (bifrost-claim (bifrost-> lamp price))))

    ;; Nobody waits for a message.  Messages of a session to an actor arrive in their order.
    (bifrost-send clock 'bid 70)
    (bifrost-send clock 'bid 65)
    (princ (format "the clock: %d\n" (bifrost-claim (bifrost-> clock price))))))

;;; auctions.el ends here
