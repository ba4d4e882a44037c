;;; served.el --- Servers and cases for tests  -*- lexical-binding: t; -*-

;;; Commentary:

;; Each test has a server of its own, which listens on a unix socket in a temporary folder and ends
;; with the test.  `case-of' runs a case of cases/*.yaml.

;;; Code:

(require 'bifrost)
(require 'cl-lib)
(require 'ert)
(require 'seq)

(defconst served-repository
  (expand-file-name "../../../" (file-name-directory (or load-file-name buffer-file-name)))
  "The folder of the repository.")

(cl-defstruct served
  "A server for a test."
  process url folder)

(defun served-environment ()
  "Return the environment for a server, which would take others for settings."
  (seq-remove (lambda (one) (string-prefix-p "BIFROST_" one)) process-environment))

(defun served-start (name command ready)
  "Start COMMAND as a process with NAME; return it once it has printed a match of READY."
  (let ((process (make-process :name name :command command :connection-type 'pipe :noquery t
                               :sentinel #'ignore
                               :buffer (generate-new-buffer (concat " *" name "*"))))
        (end (+ (float-time) 30)))
    (with-current-buffer (process-buffer process)
      (while (not (progn (goto-char (point-min)) (re-search-forward ready nil t)))
        (unless (and (accept-process-output process (max 0.1 (- end (float-time))))
                     (< (float-time) end))
          (error "The process %s does not start: %s" name (buffer-string)))))
    process))

(defun serve (program &rest arguments)
  "Start a server of PROGRAM, a path in the repository, with ARGUMENTS."
  (let* ((folder (make-temp-file "bifrost-test-" t))
         (url (concat "unix://" folder "/socket"))
         (default-directory (file-name-as-directory folder))
         (command `(,(served-binary) "serve" "--listen" ,url ,@arguments
                    ,(expand-file-name program served-repository)))
         (process-environment (served-environment)))
    (make-served :url url :folder folder
                 :process (served-start "served" `("sh" "-c" "exec \"$@\" 2>log" "sh" ,@command)
                                          "^ready "))))

(defun served-binary ()
  "Return the path of the program bifrost."
  (or (getenv "BIFROST_BIN") (error "BIFROST_BIN is the path of the program bifrost")))

(defun served-end (server &optional signal)
  "End SERVER by SIGNAL, TERM by default."
  (let ((process (served-process server)))
    (signal-process process (or signal 'TERM))
    (while (process-live-p process) (accept-process-output process 0.1))))

(defun served-remove (server)
  "End SERVER, and remove its folder."
  (served-end server 'TERM)
  (kill-buffer (process-buffer (served-process server)))
  (delete-directory (served-folder server) t))

(defmacro with-server (binding &rest body)
  "Run BODY with a server; BINDING is (VARIABLE PROGRAM ARGUMENT...)."
  (declare (indent 1))
  `(let ((,(car binding) (serve ,@(cdr binding))))
     (unwind-protect (progn ,@body) (served-remove ,(car binding)))))

(defvar case-server nil
  "The server of the case that runs.")

(defmacro case-of (binding &rest body)
  "Run BODY, a case, with a session; BINDING is (SESSION PROGRAM SETTING...)."
  (declare (indent 1))
  (pcase-let ((`(,session ,program . ,settings) binding))
    `(with-server (case-server ,(format "cases/programs/%s.theta" program)
                               ,@(mapcan (lambda (setting) (list "--set" setting)) settings))
       (bifrost-with-session (,session (served-url case-server))
         ,@body))))

(defmacro failure (&rest body)
  "Return the condition that BODY signals, or nil."
  (declare (indent 0))
  `(condition-case error (progn ,@body nil) (error error)))

(defmacro failed (&rest body)
  "Return the name of the exception that BODY signals, a symbol."
  (declare (indent 0))
  `(bifrost-error-name (or (failure ,@body) (error "No failure"))))

(defmacro should-say (text &rest body)
  "Fail unless BODY signals a condition of this library whose text matches TEXT."
  (declare (indent 1))
  `(let ((condition (failure ,@body)))
     (should (memq 'bifrost-error (get (car condition) 'error-conditions)))
     (should (string-match-p ,text (bifrost-error-text condition)))))

(defun claims (&rest stubs)
  "Return the values of STUBS."
  (mapcar #'bifrost-claim stubs))

(defun start-emacs (url form)
  "Start another Emacs, which evaluates FORM with the session `s' at URL; return the process."
  (make-process
   :name "other" :connection-type 'pipe :noquery t :sentinel #'ignore
   :buffer (generate-new-buffer " *other*")
   :command (list (expand-file-name invocation-name invocation-directory) "-Q" "--batch"
                  "-L" (file-name-directory (locate-library "bifrost")) "-l" "bifrost" "--eval"
                  (format "%S" `(let ((lexical-binding t))
                                  (eval '(bifrost-with-session (s ,url) ,form) t))))))

(defun await (process)
  "Wait for the end of PROCESS, and fail if it has failed."
  (while (process-live-p process) (accept-process-output process 1))
  (should (equal (list (process-exit-status process)
                       (with-current-buffer (process-buffer process) (buffer-string)))
                 '(0 ""))))

(provide 'served)
;;; served.el ends here
