;;; lists.el --- A linked list, walked in one crossing  -*- lexical-binding: t; -*-

;;; Commentary:

;; With examples/lists/lists.theta.

;;; Code:

(require 'bifrost)

(bifrost-with-session (s (getenv "BIFROST_URL"))
  (let ((squares (bifrost-lookup s "squares" 'IntList)))
    ;; Ten steps along the list, one crossing: every step uses a result that does not exist yet.
    (let ((at squares))
      (dotimes (_ 9) (setq at (bifrost-> at next)))
      (princ (format "the 10th is %d, after %d crossing\n" (bifrost-claim (bifrost-> at first))
                     (bifrost-crossings s))))

    ;; How far the list goes is not known here: a loop at the server finds out.
    (let ((place (bifrost-cell s 'IntList squares))
          (count (bifrost-cell s 'int 0)))
      (bifrost-while s (bifrost-> (bifrost-get place) notEmpty)
        (bifrost-put count (bifrost+ (bifrost-get count) 1))
        (bifrost-put place (bifrost-> (bifrost-get place) next)))
      (princ (format "it has %d elements, after %d crossings\n"
                     (bifrost-claim (bifrost-get count)) (bifrost-crossings s))))

    ;; The same as a routine that the program has.
    (princ (format "the 10th is %d\n" (bifrost-claim (bifrost-routine s 'nth squares 10))))
    (condition-case error (bifrost-claim (bifrost-routine s 'nth squares 101))
      (bifrost-signal (princ (format "the 101st: %s\n" (bifrost-error-name error)))))))

;;; lists.el ends here
