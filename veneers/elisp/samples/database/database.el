;;; database.el --- A tour of batches  -*- lexical-binding: t; -*-

;;; Commentary:

;; Batches of a client, with the objects of examples/database/database.theta.

;;; Code:

(require 'bifrost)

(defun say (text &rest values)
  "Print TEXT, a format of VALUES, as a line."
  (princ (concat (apply #'format text values) "\n")))

(bifrost-with-session (s (getenv "BIFROST_URL"))
  (let ((db (bifrost-lookup s "database" 'DataBase)))
    ;; Every call returns at once.  `carol' is used before anybody knows which object it is.
    (let ((carol (bifrost-> db (new_user "carol"))))
      (dotimes (_ 2) (bifrost-run carol 'touch))
      (let* ((child (bifrost-> db (new_user (bifrost-concat (bifrost-> carol name) " junior"))))
             (name (bifrost-> child name))
             (visits (bifrost-> carol visits)))
        (say "before the first claim: %d crossings" (bifrost-crossings s))
        (say "%s is there; carol has %d visits" (bifrost-claim name) (bifrost-claim visits))
        (say "after two claims: %d crossing" (bifrost-crossings s))))

    ;; A loop whose state is a cell at the server.  The body runs once, here, and records the calls
    ;; that the server repeats.
    (let ((bob (bifrost-> db (fetch "bob")))
          (rounds (bifrost-cell s 'int 0)))
      (bifrost-while s (bifrost< (bifrost-get rounds) 10)
        (bifrost-run bob 'touch)
        (bifrost-put rounds (bifrost+ (bifrost-get rounds) 1)))
      (let ((touched (bifrost-> bob visits)) (after (bifrost-get rounds)))
        (say "bob: %d visits after %d rounds" (bifrost-claim touched) (bifrost-claim after))))

    ;; Over an iterator of the server: skip those whom nobody visits, and stop after the first with
    ;; many.
    (bifrost-run (bifrost-> db (fetch "ann")) 'touch)
    (let ((seen (bifrost-cell s 'string "")))
      (bifrost-foreach (user (bifrost-> db users))
        (bifrost-when (bifrost= (bifrost-> user visits) 0) (bifrost-continue))
        (bifrost-put seen (bifrost-concat (bifrost-get seen) (bifrost-> user name) " "))
        (bifrost-if (bifrost> (bifrost-> user visits) 5)
            (bifrost-break)
          (bifrost-run user 'touch)))
      (say "visited, up to the first with many: %s" (string-trim (bifrost-claim (bifrost-get seen)))))

    ;; A table of results, in one crossing.
    (let ((rows (bifrost-rows (user (bifrost-> db users)) '(string int)
                  (list (bifrost-> user name) (bifrost-> user visits)))))
      (say "%s" (mapconcat (lambda (row) (apply #'format "%s %d" row)) (bifrost-claim rows) "; ")))

    ;; Exceptions, handled at the server or here.
    (bifrost-except s (bifrost-> db (fetch "dora"))
      (not_found () (bifrost-run db 'new_user "dora")))
    (say "%s is there now" (bifrost-claim (bifrost-> db (fetch "dora") name)))
    (condition-case error (bifrost-claim (bifrost-> db (fetch "zoe") name))
      (bifrost-signal (say "zoe: %s" (bifrost-error-text error))))

    ;; A transaction is committed, or nothing of it is there.
    (bifrost-commit s)
    (let ((count (bifrost-transaction (s)
                   (let ((ann (bifrost-> db (fetch "ann"))))
                     (bifrost-run ann 'touch)
                     (bifrost-> ann visits)))))
      (say "ann: %d visits" (bifrost-claim count)))
    (condition-case error
        (progn (bifrost-run db 'new_user "ann")
               (bifrost-commit s))
      (bifrost-signal (say "%s" (bifrost-error-text error))))
    (bifrost-abort s)))

;;; database.el ends here
