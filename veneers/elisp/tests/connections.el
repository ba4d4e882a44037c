;;; connections.el --- Addresses and servers that are wrong  -*- lexical-binding: t; -*-

;;; Commentary:

;; Servers that are killed, that send anything, that are silent or read nothing, and quits.

;;; Code:

(require 'served)

(defconst connections-database "examples/database/database.theta")

(defconst connections-welcome
  '("{\"welcome\":2,\"server\":\"x\",\"session\":1}\n" "{\"limits\":{\"depth_max\":64}}\n")
  "The answers to a greeting.")

(defconst connections-type "{\"text\":\"A = type\\n  f (x: string) returns (int)\\n\"}\n"
  "The answer to the description of a type.")

(defun connections-serve (path answers)
  "Listen at PATH, and answer the lines of a client with ANSWERS, whatever they are; then end."
  (let (is-done)
    (make-network-process
     :name "scripted" :family 'local :service path :server t :noquery t :coding 'binary
     :sentinel (lambda (process _) (unless (process-live-p process) (setq is-done t)))
     :filter (lambda (process text)
               (let ((lines (split-string (concat (process-get process 'rest) text) "\n")))
                 (process-put process 'rest (car (last lines)))
                 (dolist (line (butlast lines))
                   ;; Of a batch the last line is its end.
                   (when (string-match-p "\\`\\(hello\\|limits\\|flush\\|\\?\\|describe\\|list\\|bye\\)"
                                         line)
                     (when answers (ignore-errors (process-send-string process (pop answers))))
                     (unless answers (setq is-done t)))))))
    (message "ready")
    (while (not is-done) (accept-process-output nil 10))))

(defmacro with-scripted (binding &rest body)
  "Run BODY with a server of ANSWERS; BINDING is (URL PROCESS ANSWERS)."
  (declare (indent 1))
  `(let* ((folder (make-temp-file "bifrost-test-" t))
          (path (expand-file-name "socket" folder))
          (,(car binding) (concat "unix://" path))
          (,(cadr binding)
           (served-start "scripted"
                         (list (expand-file-name invocation-name invocation-directory) "-Q" "--batch"
                               "-L" (file-name-directory (locate-library "bifrost"))
                               "-L" (file-name-directory (locate-library "connections"))
                               "-l" "connections" "--eval"
                               (format "(connections-serve %S '%S)" path ,(nth 2 binding)))
                         "^ready")))
     (ignore ,(car binding))
     (unwind-protect (progn ,@body)
       (signal-process ,(cadr binding) 'KILL)
       (while (process-live-p ,(cadr binding)) (accept-process-output ,(cadr binding) 0.1))
       (delete-directory folder t))))

(ert-deftest bifrost-tokens-over-tcp ()
  (let* ((probe (make-network-process :name "port" :server t :host 'local :service t :noquery t))
         (url (format "tcp://127.0.0.1:%d" (process-contact probe :service))))
    (delete-process probe)
    (with-server (server connections-database "--listen" url "--token" "a-long-secret-for-tests")
      (ignore server)
      (let ((process-environment (served-environment)))
        (should (eq (car (failure (bifrost-connect url :token "wrong"))) 'bifrost-connect-error))
        (should (eq (car (failure (bifrost-connect url))) 'bifrost-connect-error))
        (bifrost-with-session (s url :token "a-long-secret-for-tests" :name "tests")
          (let ((db (bifrost-lookup s "database" 'DataBase)))
            (should (= (bifrost-claim (bifrost-> db (fetch "ann") visits)) 0))
            (should (integerp (bifrost-number s)))
            (should (string-match-p "bifrost" (bifrost-server s)))))
        (setenv "BIFROST_TOKEN" "a-long-secret-for-tests")
        (bifrost-close (bifrost-connect url))))))

(ert-deftest bifrost-nobody-is-there ()
  (let ((count (length (buffer-list))))
    (should-say "^nobody answers at unix:///nowhere/socket: No such file or directory$"
      (bifrost-connect "unix:///nowhere/socket"))
    (let ((probe (make-network-process :name "port" :server t :host 'local :service t :noquery t)))
      (delete-process probe)
      (should-say "^nobody answers at tcp://\\[::1\\]:[0-9]+: "
        (bifrost-connect (format "tcp://[::1]:%d" (process-contact probe :service))))
      (should-say "^nobody answers at tcp://127.0.0.1:[0-9]+: "
        (bifrost-connect (format "tcp://127.0.0.1:%d" (process-contact probe :service)))))
    (should-say "^nobody answers at tcp://a..b:1: " (bifrost-connect "tcp://a..b:1"))
    (should-say "is no address for this client: it speaks unix:///path and tcp://host:port"
      (bifrost-connect "tls://host:1"))
    (should (failure (bifrost-connect "unix:///x" :speed 1)))
    (should (= (length (buffer-list)) count))))

(ert-deftest bifrost-a-server-that-takes-no-connection ()
  (let* ((listener (make-network-process :name "full" :server t :host 'local :service t :noquery t))
         (url (format "tcp://127.0.0.1:%d" (process-contact listener :service)))
         (bifrost-connect-timeout 0.5)
         (begun (float-time)))
    (unwind-protect
        ;; The kernel decides how long a queue is, so that this one stays under way here.
        (cl-letf (((symbol-function 'process-status) (lambda (_) 'connect)))
          (should-say "^nobody answers at tcp://127.0.0.1:[0-9]+: not within 0.5 seconds"
            (bifrost-connect url))
          (should (< 0.4 (- (float-time) begun) 5)))
      (delete-process listener))))

(ert-deftest bifrost-a-server-that-is-killed ()
  (with-server (server connections-database)
    (let* ((s (bifrost-connect (served-url server)))
           (db (bifrost-lookup s "database" 'DataBase)))
      (should (= (bifrost-claim (bifrost-> db (fetch "ann") visits)) 0))
      (served-end server 'KILL)
      (let ((begun (float-time)))
        (should (eq (car (failure (bifrost-claim (bifrost-> db (fetch "ann") visits))))
                    'bifrost-connect-error))
        (should (< (- (float-time) begun) 1)))
      (should (equal (failure (bifrost-> db (fetch "ann")))
                     '(bifrost-connect-error "the session has ended")))
      (bifrost-close s))))

(ert-deftest bifrost-a-server-that-is-killed-does-not-kill-a-batch ()
  (with-server (server connections-database)
    (with-temp-buffer
      ;; The signal of a write to a closed connection has its default again, which ends a process.
      (let* ((form `(let ((s (bifrost-connect ,(served-url server))))
                      (bifrost-claim (bifrost-value s 'int 1))
                      (signal-process ,(process-id (served-process server)) 'KILL)
                      ;; Nothing is read meanwhile.
                      (call-process "sleep" nil nil nil "0.5")
                      (condition-case error (bifrost-claim (bifrost-value s 'int 1))
                        (error (princ (car error))))))
             (status (call-process "env" nil t nil "--default-signal=PIPE"
                                   (expand-file-name invocation-name invocation-directory)
                                   "-Q" "--batch" "-L"
                                   (file-name-directory (locate-library "bifrost"))
                                   "-l" "bifrost" "--eval" (format "%S" form))))
        (should (equal (list status (buffer-string)) '(0 "bifrost-connect-error")))))))

(ert-deftest bifrost-answers-that-are-none ()
  (pcase-dolist
      (`(,text . ,answers)
       `(("the server has ended the session")
         ("a line that is no answer" "hello\n")
         ("a line that is no answer" "5\n")
         ("a line that is no answer" "{} {}\n")
         ("a line that is no answer" "[[1]]\n")
         ("the server has ended the session" "{\"welcome\":2")
         ("limits that are none" ,(car connections-welcome) "{}\n")
         ("limits that are none" ,(car connections-welcome) "{\"limits\":[]}\n")
         ("limits that are none" ,(car connections-welcome) "{\"limits\":{\"depth_max\":\"x\"}}\n")
         ("a line that is no answer" ,@connections-welcome "x\n")
         ("without text" ,@connections-welcome "{}\n")
         ("a line that is no answer" ,@connections-welcome "\377\376\200\n")
         ("a line that is no answer" ,@connections-welcome ,(concat (make-string 100000 ?\[) "\n"))
         ("without results" ,@connections-welcome ,connections-type "{}\n")
         ("without results" ,@connections-welcome ,connections-type
          "{\"results\":{\"a\":1},\"exceptions\":[]}\n")
         ("without results" ,@connections-welcome ,connections-type
          "{\"results\":[1,2],\"exceptions\":[]}\n")
         ("without exceptions" ,@connections-welcome ,connections-type
          "{\"results\":[{\"name\":\"@1\",\"value\":1}]}\n")
         ("other results than were asked for" ,@connections-welcome ,connections-type
          "{\"results\":[],\"exceptions\":[]}\n")
         ("a result that was not asked for" ,@connections-welcome ,connections-type
          "{\"results\":[{\"name\":\"@2\",\"value\":1}],\"exceptions\":[]}\n")
         ("Fatal: told" ,@connections-welcome ,connections-type
          "{\"error\":\"Fatal\",\"text\":\"told\"}\n")
         ("BadLine: a line" ,@connections-welcome ,connections-type
          "{\"error\":\"BadLine\",\"line\":3,\"column\":1,\"text\":\"a line\"}\n")))
    (with-scripted (url _process answers)
      (let ((condition (failure (bifrost-claim (bifrost-lookup (bifrost-connect url :timeout 10)
                                                               "a" 'A)))))
        (should (eq (car condition) 'bifrost-connect-error))
        (should (string-match-p text (bifrost-error-text condition)))))))

(ert-deftest bifrost-values-of-another-type ()
  (pcase-dolist (`(,type . ,values)
                 '(("int" "\"x\"" "1.5" "null" "[]" "{}") ("bool" "1" "null" "\"true\"")
                   ("string" "1" "{\"bytes\":\"00\"}") ("char" "\"xy\"" "\"\"" "5")
                   ("real" "\"x\"" "null" "[]") ("bytes" "\"00\"" "{\"bytes\":5}" "{\"bytes\":\"0z\"}" "{\"bytes\":\"000\"}")
                   ("null" "0" "false") ("sequence[int]" "5" "[\"x\"]" "{\"a\":1}" "[[1]]")
                   ("struct[x: int, y: int]" "{}" "{\"x\":1}" "{\"x\":1,\"z\":2}" "[1,2]"
                    "{\"x\":1,\"y\":\"a\"}")
                   ("oneof[a: int, b: null]" "{}" "{\"c\":1}" "{\"a\":null}" "\"a\"" "[]")
                   ("maybe[int]" "{\"some\":\"x\"}" "5") ("map[int, string]" "[[1]]" "[1]" "{}")))
    (let* ((session (bifrost--make-session))
           (parsed (bifrost--type session type)))
      (dolist (value values)
        (let ((json (json-parse-string value :object-type 'alist :null-object :null
                                       :false-object :false)))
          (should-say "^the server has sent .*, which is no " (bifrost--read parsed json))))))
  (with-scripted (url _process
                      (append connections-welcome
                              (list connections-type
                                    (concat "{\"results\":[{\"name\":\"@1\",\"handle\":1,"
                                            "\"type\":\"A\"},{\"name\":\"@2\",\"value\":\"x\"}],"
                                            "\"exceptions\":[]}\n"))))
    (let* ((s (bifrost-connect url)) (a (bifrost-lookup s "a" 'A)) (n (bifrost-> a (f "\0"))))
      (should-say "^the server has sent \"x\", which is no int" (bifrost-claim n)))))

(ert-deftest bifrost-causes-in-a-circle ()
  (let ((circle (concat "{\"call\":1,\"name\":\"a\",\"unhandled\":{\"argument\":0,\"cause\":2}},"
                        "{\"call\":2,\"name\":\"b\",\"unhandled\":{\"argument\":0,\"cause\":1}}")))
    (with-scripted (url _process
                        (append connections-welcome
                                (list connections-type
                                      (format "{\"results\":[{\"name\":\"@1\",\"failed\":true}],\"exceptions\":[%s]}\n"
                                              circle))))
      (should-say "^an earlier call signals unhandled_exc; not run: a"
        (bifrost-claim (bifrost-lookup (bifrost-connect url) "a" 'A))))))

(ert-deftest bifrost-a-server-that-says-nothing ()
  (with-scripted (url process (append connections-welcome (list connections-type "")))
    (let ((s (bifrost-connect url :timeout 1)) (begun (float-time)))
      (signal-process process 'STOP)
      (should-say "^no answer came within 1 seconds" (bifrost-claim (bifrost-lookup s "a" 'A)))
      (should (< (- (float-time) begun) 3))
      (should-say "^the session has ended" (bifrost-value s 'int 1)))))

(ert-deftest bifrost-a-server-that-reads-nothing ()
  (with-scripted (url process (append connections-welcome (list connections-type "")))
    (let ((s (bifrost-connect url :timeout 1)))
      (signal-process process 'STOP)
      (should-say "^the server has taken no more for 1 seconds"
        (dotimes (_ 100) (bifrost-value s 'string (make-string 100000 ?x)))))))

(ert-deftest bifrost-an-answer-that-is-too-long ()
  (with-server (server connections-database)
    (let ((bifrost-answer-bytes-max 100000))
      (bifrost-with-session (s (served-url server))
        (should-say "^an answer is longer than 100000 bytes"
          (bifrost-claim (bifrost-> (bifrost-value s 'string (make-string 200000 ?x))
                                    (concat "y"))))))))

(ert-deftest bifrost-a-quit-in-a-claim-ends-the-session ()
  (with-server (server "cases/programs/hermitage.theta")
    (bifrost-with-session (s (served-url server))
      (let* ((row (bifrost-> (bifrost-lookup s "table" 'Table) (row 1)))
             (value (bifrost-> row value))
             (changed (progn (bifrost-claim value) (bifrost-wait s 60000)))
             (begun (float-time)))
        ;; As C-g does.
        (run-at-time 0.3 nil (lambda () (signal 'quit nil)))
        (should (eq (condition-case nil (bifrost-claim changed) (quit 'quit)) 'quit))
        (should (< (- (float-time) begun) 5))
        (should-say "^the session has ended" (bifrost-> row value))
        (should (= (bifrost-claim value) 10))
        ;; The program goes on with another session.
        (bifrost-with-session (other (served-url server))
          (should (= (bifrost-claim (bifrost-> (bifrost-lookup other "table" 'Table) total)) 30)))))))

(ert-deftest bifrost-a-c-g-in-a-claim-ends-the-session ()
  ;; An Emacs in a terminal, to which the key is sent.
  (with-server (server "cases/programs/hermitage.theta")
    (let* ((file (expand-file-name "told" (served-folder server)))
           (program (expand-file-name "program.el" (served-folder server)))
           (tell `(lambda (value) (write-region (format "%S" value) nil ,file nil 'silent)))
           (form `(run-at-time
                   0.1 nil
                   (lambda ()
                     (let* ((inhibit-quit nil)
                            (s (bifrost-connect ,(served-url server)))
                            (row (bifrost-> (bifrost-lookup s "table" 'Table) (row 1))))
                       (bifrost-claim (bifrost-> row value))
                       (let ((changed (bifrost-wait s 60000)))
                         (funcall ,tell 'claims)
                         (let ((quit (condition-case nil (bifrost-claim changed) (quit 'quit))))
                           (funcall ,tell (list quit (condition-case error (bifrost-> row value)
                                                       (error (car error))))))))
                     (kill-emacs 0))))
           (told (lambda () (with-temp-buffer
                              (when (file-exists-p file) (insert-file-contents file))
                              (buffer-string))))
           (end (+ (float-time) 30)))
      (with-temp-file program
        (insert (format ";; -*- lexical-binding: t -*-\n(require 'bifrost)\n%S\n" form)))
      (let* ((process-environment (cons "TERM=xterm" process-environment))
             (process (make-process
                       :name "terminal" :connection-type 'pty :noquery t :sentinel #'ignore
                       :filter #'ignore
                       :command (list (expand-file-name invocation-name invocation-directory)
                                      "-Q" "-nw" "-L"
                                      (file-name-directory (locate-library "bifrost"))
                                      "-l" program))))
        (unwind-protect
            (progn
              (while (and (not (equal (funcall told) "claims")) (< (float-time) end))
                (accept-process-output process 0.1))
              (sleep-for 0.5)
              (process-send-string process "\C-g")
              (while (and (process-live-p process) (< (float-time) end))
                (accept-process-output process 0.1))
              (should (equal (funcall told) "(quit bifrost-connect-error)")))
          (delete-process process))))))

(ert-deftest bifrost-a-session-waits-for-one-answer ()
  (with-server (server "cases/programs/hermitage.theta")
    (bifrost-with-session (s (served-url server))
      (let* ((row (bifrost-> (bifrost-lookup s "table" 'Table) (row 1)))
             (changed (progn (bifrost-claim (bifrost-> row value)) (bifrost-wait s 1000)))
             inner)
        ;; A timer that runs during the claim.
        (run-at-time 0.2 nil (lambda () (setq inner (failure (bifrost-describe s 'Table)))))
        (should-not (bifrost-claim changed))
        (should (equal inner '(bifrost-misuse "the session waits for an answer")))
        (should (= (bifrost-claim (bifrost-> row value)) 10))))))

(ert-deftest bifrost-a-session-that-is-left-sends-nothing ()
  (with-server (server connections-database)
    (should (equal (failure (bifrost-with-session (s (served-url server))
                              (bifrost-> (bifrost-lookup s "database" 'DataBase) (new_user "zoe"))
                              (error "Mine")))
                   '(error "Mine")))
    (bifrost-with-session (s (served-url server))
      (let ((db (bifrost-lookup s "database" 'DataBase)))
        (should (eq (failed (bifrost-claim (bifrost-> db (fetch "zoe")))) 'not_found))))))

(ert-deftest bifrost-long-batches-and-long-answers ()
  (with-server (server connections-database)
    (bifrost-with-session (s (served-url server))
      (let* ((db (bifrost-lookup s "database" 'DataBase))
             (visits (mapcar (lambda (_) (bifrost-> db (fetch "ann") visits))
                             (number-sequence 1 3000))))
        (should (equal (apply #'claims visits) (make-list 3000 0)))
        (should (= (bifrost-crossings s) 1))
        (should (= (length (bifrost-claim (bifrost-concat
                                           (bifrost-value s 'string (make-string 200000 ?é)) "y")))
                   200001))))))

(ert-deftest bifrost-without-the-parser-of-emacs ()
  (cl-letf (((symbol-function 'json-available-p) (lambda () nil)))
    (with-server (server "cases/programs/conformance.theta")
      (bifrost-with-session (s (served-url server))
        (let* ((p (bifrost-lookup s "probe" 'Probe))
               (values `(,(- (ash 1 63)) ,(1- (ash 1 63))))
               (told (append (mapcar (lambda (value) (bifrost-> p (same_int value))) values)
                             (list (bifrost-> p (same_string "äß€🦀\0\n")) (bifrost-> p (same_bool nil))
                                   (bifrost-> p (same_real 5e-324)) (bifrost-> p nothing)
                                   (bifrost-contents (bifrost-> p values (twice '(1 2))))))))
          (should (equal (apply #'claims told)
                         (append values (list "äß€🦀\0\n" nil 5e-324 nil '(2 4)))))
          (should (eq (failed (bifrost-claim (bifrost-> p (item "zoe")))) 'not_found)))))))

(ert-deftest bifrost-the-commands-of-a-batch-are-explained ()
  (with-server (server connections-database)
    (bifrost-with-session (s (served-url server))
      (bifrost-run (bifrost-lookup s "database" 'DataBase) 'new_user "zoe")
      (should (string-match-p "new_user(\"zoe\")" (bifrost-explain s)))
      (should (string-match-p "DataBase" (bifrost-describe s)))
      (should (= (alist-get 'depth_max (bifrost-limits s)) 64)))))

(provide 'connections)
;;; connections.el ends here
