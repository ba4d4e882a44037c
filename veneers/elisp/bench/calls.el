;;; calls.el --- What a call costs in a batch  -*- lexical-binding: t; -*-

;;; Commentary:

;; Calls recorded by the library, and written by hand to a socket.  The program is
;; cases/programs/conformance.theta: `bifrost serve cases/programs/conformance.theta', and its
;; address in BIFROST_URL.  `emacs -Q --batch -L FOLDER -l calls.el [CALLS ROUNDS]' measures the
;; library in FOLDER: compiled if bifrost.elc is there.  BIFROST_GC is the number of bytes between
;; two collections of garbage, 800000 in Emacs by default.

;;; Code:

(require 'bifrost)
(require 'cl-lib)

(defun bench-collect (socket text)
  "Send TEXT to SOCKET; return the last line of the answer."
  (with-current-buffer (process-buffer socket)
    (erase-buffer)
    (process-send-string socket text)
    (while (not (eq (char-before (point-max)) ?\n)) (accept-process-output socket 10))
    (goto-char (point-max))
    (forward-line -1)
    (buffer-substring (point) (point-max))))

(defun bench-socket (socket count)
  "Write COUNT calls by hand to SOCKET; ask for the last result."
  (let (lines)
    (dotimes (i count)
      (push (concat "$p.same_int(" (number-to-string i) ")\n") lines))
    (push (format "? @%d\n" count) lines)
    (bench-check (bench-collect socket (apply #'concat (nreverse lines))) count)))

(defun bench-socket-all (socket count)
  "Write COUNT calls by hand to SOCKET; ask for all results."
  (let (lines)
    (dotimes (i count)
      (push (concat "$p.same_int(" (number-to-string i) ")\n") lines))
    (push (format "? %s\n" (mapconcat (lambda (i) (format "@%d" i)) (number-sequence 1 count) ", "))
          lines)
    (bench-check (bench-collect socket (apply #'concat (nreverse lines))) count)))

(defun bench-check (answer count)
  "Fail unless ANSWER has the last of COUNT results."
  (unless (string-match-p (format "\"value\":%d\\b" (1- count)) answer)
    (error "A wrong result")))

(defun bench-call (probe count)
  "Record COUNT calls of PROBE, each with a stub; claim the last one."
  (let (last)
    (dotimes (i count) (setq last (bifrost-call probe 'same_int i)))
    (unless (= (bifrost-claim last) (1- count)) (error "A wrong result"))))

(defun bench-run (probe count)
  "Record COUNT calls of PROBE for their effect; claim a last one."
  (dotimes (i (1- count)) (bifrost-run probe 'same_int i))
  (unless (= (bifrost-claim (bifrost-call probe 'same_int 7)) 7) (error "A wrong result")))

(defun bench-all (count rounds)
  "Measure ROUNDS batches of COUNT calls."
  (when-let ((bytes (getenv "BIFROST_GC"))) (setq gc-cons-threshold (string-to-number bytes)))
  (let* ((url (getenv "BIFROST_URL"))
         (session (bifrost-connect url))
         (probe (bifrost-lookup session "probe" 'Probe))
         (socket (make-network-process
                  :name "raw" :buffer (generate-new-buffer " *raw*") :family 'local :noquery t
                  :coding 'utf-8-unix :service (string-remove-prefix "unix://" url)))
         (systems `(("socket, the last result" . ,(lambda () (bench-socket socket count)))
                    ("bifrost-run" . ,(lambda () (bench-run probe count)))
                    ("socket, all results" . ,(lambda () (bench-socket-all socket count)))
                    ("bifrost-call" . ,(lambda () (bench-call probe count)))))
         times)
    (bifrost-claim (bifrost-> probe (same_int 0)))
    (bench-collect socket "hello 2 json name bench\n")
    (bench-collect socket "$p := lookup probe: Probe\nflush\n")
    (dotimes (round (1+ rounds))
      (pcase-dolist (`(,name . ,system) systems)
        (let ((begun (float-time)) (gc gc-elapsed))
          (funcall system)
          (let ((end (float-time)))
            ;; The first round warms up.
            (when (> round 0)
              (push (list (/ (* 1e6 (- end begun)) count)
                          (/ (* 1e6 (- gc-elapsed gc)) count))
                    (alist-get name times nil nil #'equal)))))))
    (princ (format "batches of %d calls, us a call; %s, a collection after %d bytes\n" count
                   (cond ((and (fboundp 'subr-native-elisp-p)
                               (subr-native-elisp-p (symbol-function 'bifrost-call)))
                          "native")
                         ((byte-code-function-p (symbol-function 'bifrost-call)) "compiled")
                         (t "interpreted"))
                   gc-cons-threshold))
    (princ (format "  %-24s %10s %10s %10s %10s\n" "" "median" "least" "mean" "collecting"))
    (pcase-dolist (`(,name . ,system) systems)
      (ignore system)
      (let* ((all (alist-get name times nil nil #'equal))
             (totals (sort (mapcar #'car all) #'<)))
        (princ (format "  %-24s %10.2f %10.2f %10.2f %10.2f\n" name
                       (nth (/ (length totals) 2) totals) (car totals)
                       (/ (apply #'+ totals) (length totals))
                       (/ (apply #'+ (mapcar #'cadr all)) (length all))))))))

(when noninteractive
  (bench-all (string-to-number (or (nth 0 command-line-args-left) "1000"))
             (string-to-number (or (nth 1 command-line-args-left) "41")))
  (setq command-line-args-left nil))

(provide 'calls)
;;; calls.el ends here
