;;; bench.el --- The measured client of `bifrost bench veneers'  -*- lexical-binding: t; -*-

;;; Commentary:

;; It connects to BIFROST_URL, a server of cases/programs/conformance.theta at a unix socket, and
;; answers lines `CASE N' by the nanoseconds and the result of N steps (bench/veneers/README.md).

;;; Code:

(require 'bifrost)

(defconst bench-call (make-string 29 ?y)
  "A message of `raw': as long as a call with one integer that is claimed.")

(defconst bench-answer (make-string 66 ?x)
  "An answer of `raw', as long as that of such a call.")

(defvar bench-raw nil "The socket of `raw'.")
(defvar bench-text nil "The socket to which `socket' writes the text form by hand.")

(defun bench-connect (path)
  "Return a process that is connected to the unix socket at PATH."
  (make-network-process :name "bench" :buffer (generate-new-buffer " *bench*") :family 'local
                        :service path :noquery t :coding 'utf-8-unix))

(defun bench-exchange (socket message is-whole)
  "Send MESSAGE to SOCKET.
Return the answer, once IS-WHOLE returns non-nil at its end."
  (with-current-buffer (process-buffer socket)
    (erase-buffer)
    (process-send-string socket message)
    (while (not (and (goto-char (point-max)) (funcall is-whole)))
      (unless (accept-process-output socket 60) (error "No answer")))
    (buffer-string)))

(defun bench-exchange-line (socket message)
  "Send MESSAGE to SOCKET; return the answer, a line."
  (bench-exchange socket message (lambda () (eq (char-before) ?\n))))

(defun bench-echo (path)
  "Listen at PATH; answer each message until the one client ends."
  (make-network-process :name "echo" :family 'local :service path :server t :noquery t
                        :coding 'binary
                        :filter (lambda (client _) (process-send-string client bench-answer))
                        :sentinel (lambda (_ event)
                                    (unless (string-prefix-p "open" event) (kill-emacs))))
  (while t (accept-process-output nil 60)))

(defun bench-dial-echo ()
  "Return a socket whose other end, in an Emacs of its own, is `bench-echo'."
  (let* ((folder (make-temp-file "bench" t))
         (path (expand-file-name "echo" folder))
         (other (make-process :name "echo" :noquery t :connection-type 'pipe
                              :command (list (expand-file-name invocation-name invocation-directory)
                                             "-Q" "--batch" "-L" (car load-path) "-l" "bench"
                                             "--eval" (format "(bench-echo %S)" path))))
         socket)
    (unwind-protect
        (while (not (setq socket (ignore-errors (bench-connect path))))
          (unless (process-live-p other) (error "The other end of `raw' does not start"))
          (sleep-for 0.02))
      (delete-directory folder t))
    socket))

(defun bench-record (session probe count)
  "Record COUNT calls of PROBE in SESSION, whose stubs are dropped."
  (let ((result 0) end)
    (dotimes (n count)
      (bifrost-call probe 'same_int n)
      (setq result (+ result n)))
    (setq end (current-time))
    (bifrost-flush session)
    (list result end)))

(defun bench-batch (probe count)
  "Record COUNT calls of PROBE, and claim the last one in the time."
  (let (stubs end (result 0))
    (dotimes (n count) (push (bifrost-call probe 'same_int n) stubs))
    (bifrost-claim (car stubs))
    (setq end (current-time))
    (dolist (stub stubs) (setq result (+ result (bifrost-claim stub))))
    (list result end)))

(defun bench-last (probe count)
  "Record COUNT calls of PROBE, of which only the last one is held, and claim that."
  (let (last)
    (dotimes (n count) (setq last (bifrost-call probe 'same_int n)))
    (bifrost-claim last)))

(defun bench-table (probe count)
  "Return the sum of a table with COUNT rows of PROBE."
  (let ((rows (bifrost-rows ((n text) (bifrost-> probe (pairs count))) '(int string)
                (list n text)))
        (result 0))
    (pcase-dolist (`(,n ,text) (bifrost-claim rows))
      (setq result (+ result n (length text))))
    result))

(defun bench-by-hand (count)
  "Write COUNT calls to a socket, and ask for the last result."
  (let (lines)
    (dotimes (n count) (push (format "$a := $p.same_int(%d)\n" n) lines))
    (push "? $a\n" lines)
    (let ((answer (bench-exchange-line bench-text (apply #'concat (nreverse lines)))))
      (unless (string-match "\"value\":\\([0-9]+\\)" answer) (error "`socket' has no result"))
      (string-to-number (match-string 1 answer)))))

(defun bench-run (session probe name count)
  "Do COUNT steps of the case NAME, with PROBE of SESSION.
Return a list of the result and, if the case does more, the end of the time."
  (let ((result 0))
    (pcase name
      ("record" (bench-record session probe count))
      ("batch" (bench-batch probe count))
      ("null" (dotimes (_ count) (bifrost-claim (bifrost-call probe 'nothing)))
       (list count))
      ("pair" (dotimes (n count)
                (setq result (+ result (bifrost-claim (bifrost-call probe 'same_int n)))))
       (list result))
      ("two" (dotimes (n count)
               (setq result (+ result (bifrost-claim (bifrost-> probe itself (same_int n))))))
       (list result))
      ("table" (list (bench-table probe count)))
      ("raw" (let ((is-whole (lambda () (= (buffer-size) (length bench-answer)))))
               (dotimes (_ count) (bench-exchange bench-raw bench-call is-whole))
               (list count)))
      ("last" (list (bench-last probe count)))
      ("socket" (list (bench-by-hand count)))
      (_ (error "There is no case %s" name)))))

(defun bench-line ()
  "Return the next line of the input, or nil at its end."
  (condition-case nil (read-string "") (end-of-file nil)))

(defun bench-main ()
  "Answer lines until the input ends."
  (let ((url (getenv "BIFROST_URL")) line)
    (setq bench-raw (bench-dial-echo)
          bench-text (bench-connect (string-remove-prefix "unix://" url)))
    (bench-exchange-line bench-text "hello 2 json name bench\n")
    (bench-exchange-line bench-text "$p := lookup probe: Probe\nflush\n")
    (bifrost-with-session (session url)
      (let ((probe (bifrost-lookup session "probe" 'Probe)))
        (bifrost-flush session)
        (while (setq line (bench-line))
          (pcase-let* ((`(,name ,count) (split-string line))
                       (count (string-to-number count))
                       (begin (current-time))
                       (`(,result ,end) (bench-run session probe name count))
                       (time (time-subtract (or end (current-time)) begin)))
            (princ (format "%d %d\n" (car (time-convert time 1000000000)) result))))))))

(provide 'bench)
;;; bench.el ends here
