;;; points.el --- Points, a procedure, and a list  -*- lexical-binding: t; -*-

;;; Commentary:

;; With examples/points/points.theta.

;;; Code:

(require 'bifrost)

(defun show (point)
  "Print the coordinates of POINT."
  (let ((x (bifrost-> point x)) (y (bifrost-> point y)))
    (princ (format "x = %d, y = %d\n" (bifrost-claim x) (bifrost-claim y)))))

(bifrost-with-session (s (getenv "BIFROST_URL"))
  (let ((home (bifrost-lookup s "home" 'point)))
    ;; Swap the coordinates of a point, step by step: one crossing.
    (let ((x (bifrost-> home x)))
      (bifrost-run home 'set_x (bifrost-> home y))
      (bifrost-run home 'set_y x))
    (show home)

    ;; A procedure is a batch with a name: defined once, called like a routine.
    (let ((move (bifrost-procedure s move ((p point) (by int)) nil
                  (bifrost-run p 'set_x (bifrost+ (bifrost-> p x) by))
                  (bifrost-run p 'set_y (bifrost+ (bifrost-> p y) by)))))
      (dolist (by '(10 100)) (funcall move home by)))
    (show home))

  ;; The sum of a list, with a loop over a cell.
  (let* ((primes (bifrost-lookup s "primes" "list[int]"))
         (at (bifrost-cell s "list[int]" primes))
         (total (bifrost-cell s 'int 0)))
    (bifrost-while s (bifrost-> (bifrost-get at) notEmpty)
      (bifrost-put total (bifrost+ (bifrost-get total) (bifrost-> (bifrost-get at) first)))
      (bifrost-put at (bifrost-> (bifrost-get at) next)))
    (princ (format "sum = %d, after %d crossings\n" (bifrost-claim (bifrost-get total))
                   (bifrost-crossings s)))

    ;; Or the whole list at once, as a list of Lisp.
    (princ (format "primes: %s\n" (mapconcat #'number-to-string
                                             (bifrost-claim (bifrost-contents primes)) " ")))))

;;; points.el ends here
