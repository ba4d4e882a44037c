;;; visitor.el --- A client among many of one server  -*- lexical-binding: t; -*-

;;; Commentary:

;; `emacs -Q --batch -L FOLDER -l visitor.el NAME TIMES' visits Ann and a person of its own, so many
;; times.  veneers/together.sh runs it beside clients in other languages, over other media.

;;; Code:

(require 'bifrost)

(pcase-let ((`(,name ,times) command-line-args-left)
            (last -1))
  (setq command-line-args-left nil)
  (bifrost-with-session (s (getenv "BIFROST_URL"))
    (let* ((db (bifrost-lookup s "database" 'DataBase))
           (own (bifrost-transaction (s) (bifrost-> db (new_user name)))))
      (dotimes (_ (string-to-number times))
        (let ((seen (bifrost-claim (bifrost-transaction (s)
                                     (let ((ann (bifrost-> db (fetch "ann"))))
                                       (bifrost-run ann 'touch)
                                       (bifrost-run own 'touch)
                                       (bifrost-> ann visits))))))
          (unless (> seen last) (error "Ann had %d visits, and has %d" last seen))
          (setq last seen)))
      (princ (format "%s: %d visits, Ann at least %d\n" name (bifrost-claim (bifrost-> own visits))
                     last)))))

;;; visitor.el ends here
