;;; bifrost.el --- Calls to the objects of Bifrost servers, in batches  -*- lexical-binding: t; -*-

;; Author: The Bifrost authors
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: comm, processes
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A client of Bifrost servers.  Calls are recorded, and cross in a batch when a result is claimed:
;;
;;     (bifrost-with-session (s "unix:///run/bifrost.sock")
;;       (let ((db (bifrost-lookup s "database" 'DataBase))
;;             (total (bifrost-cell s 'int 0)))
;;         (bifrost-foreach (user (bifrost-> db users))
;;           (bifrost-when (bifrost> (bifrost-> user visits) 0)
;;             (bifrost-put total (bifrost+ (bifrost-get total) (bifrost-> user visits)))))
;;         (message "%d" (bifrost-claim (bifrost-get total)))))
;;
;; Methods are those of the server's types: a call is checked against them when it is recorded.
;; The bodies of structures run once, here, and record the calls that the server repeats.
;; The README has a guide.
;;
;; The file has five parts: data, connecting, recording, the conversation, values.  A session
;; collects lines of the text form in `bifrost--pending', newest first.  A flush sends them, and
;; gives each living stub its state.  Stubs are held by a weak table: names of dead ones are freed.

;;; Code:

(require 'cl-lib)
(require 'hex-util)
(require 'json)
(require 'seq)
(require 'subr-x)
(require 'timer)

(defgroup bifrost nil
  "Calls to the objects of Bifrost servers."
  :group 'comm
  :prefix "bifrost-")

(defcustom bifrost-connect-timeout 10
  "Seconds within which a server must take a connection."
  :type 'number)

(defcustom bifrost-timeout 60
  "Seconds within which a server must answer; nil for no limit.
The time of `bifrost-wait' is added."
  :type '(choice (const :tag "No limit" nil) number))

(defcustom bifrost-answer-bytes-max (* 64 1024 1024)
  "Characters of the longest answer."
  :type 'natnum)

(defcustom bifrost-line-bytes-max (* 1024 1024)
  "Bytes of the longest line; a server may allow less."
  :type 'natnum)

(defcustom bifrost-batch-commands-max 75000
  "Commands of a batch, after which it is sent by itself.
It is also sent before it has three quarters of what its server allows."
  :type 'natnum)

(defcustom bifrost-history-max 1000
  "Exceptions that `bifrost-history' returns at most: the last ones."
  :type 'natnum)

(defcustom bifrost-live-milliseconds 10000
  "The longest wait of a live batch before it waits again."
  :type 'natnum)

(defconst bifrost--names-max 7500
  "Names at the server, three quarters of those that it allows.")

(defconst bifrost--send-bytes (* 64 1024)
  "Bytes of lines that wait before they are sent without a flush.")

;;;; Conditions

(define-error 'bifrost-error "Bifrost")
(define-error 'bifrost-misuse "Bifrost call that is not possible" 'bifrost-error)
(define-error 'bifrost-connect-error "Bifrost session" 'bifrost-error)
(define-error 'bifrost-line-error "Bifrost line" 'bifrost-error)
(define-error 'bifrost-signal "Bifrost exception" 'bifrost-error)
(define-error 'bifrost-refused "Bifrost refusal" 'bifrost-signal)

(defun bifrost--misuse (text &rest values)
  "Signal `bifrost-misuse' with TEXT, a format of VALUES."
  (signal 'bifrost-misuse (list (apply #'format text values))))

(defun bifrost-error-text (error)
  "Return the text of ERROR, a condition of this library."
  (cadr error))

(defun bifrost-error-name (error)
  "Return the name of ERROR's exception as a symbol, nil of other conditions."
  (let ((name (symbol-name (car error))))
    (and (string-match "\\`bifrost-\\(?:signal\\|refused\\)-\\(.*\\)" name)
         (intern (match-string 1 name)))))

(defun bifrost-error-values (error)
  "Return the values of ERROR's exception."
  (nth 2 error))

(defun bifrost-error-via (error)
  "Return the names of those that were not run because of ERROR."
  (nth 3 error))

(defun bifrost-error-rounds (error)
  "Return the rounds of the loops around ERROR, from 1, the outermost first."
  (nth 4 error))

;;;; Data

(defconst bifrost--basic '(null bool int real char string bytes rows)
  "The kinds of types whose results have no handle.")

(cl-defstruct (bifrost-session (:conc-name bifrost--) (:constructor bifrost--make-session)
                               (:copier nil))
  "A session at a server."
  process number server limits timeout (lines-sent 0)
  (types (make-hash-table :test 'equal))
  ;; Lines that were not sent, newest first, and their bytes; those from before the open structure.
  pending (pending-bytes 0) before
  ;; The open structures: their number, the scope of names, the kinds of their bodies.
  (depth 0) scope places
  ;; The number of the last name, and the position of the last result of the batch.
  (names 0) (position 0)
  ;; Stubs of this batch by their positions, and the number of those that may be objects.
  (stubs (make-hash-table :test 'eq :weakness 'value)) (objects 0)
  ;; Objects of earlier batches by the numbers of their names, and these numbers; the number of
  ;; collections of garbage when these were looked at.
  (kept (make-hash-table :test 'eq :weakness 'value)) kept-names (sweeps 0)
  ;; Lines and bytes of the batch, and the seconds for which it waits.
  (lines 0) (bytes 0) (waits 0)
  ;; Bounds of these, and of a line.
  lines-max position-max bytes-max line-max
  ;; Failures that no claim has told; all of them; true if the server knows of some.
  untold history has-failed
  in-transaction has-table busy (calls 0) (crossings 0))

(cl-defstruct (bifrost--type (:copier nil))
  "A type of a server: KIND is a symbol, PARTS are pairs of a field and a type."
  session text kind parts methods)

(cl-defstruct (bifrost--heading (:copier nil))
  "The heading of a method or routine.  CALL is its name with the parenthesis."
  name call parameters results yields)

(cl-defstruct (bifrost-stub (:conc-name bifrost--stub-) (:constructor bifrost--make-stub)
                            (:copier nil))
  "A result of a batch that may still be under way.
NAME is its text as an operand, if it is known.  SCOPE is nil outside
structures.
POSITION is that of the result, and CALL that of the first result of its call.
ASKED is its text in a question.
STATE is nil, a pair as `(value . 5)', or a `bifrost--failure'."
  type name what scope position call asked state)

(cl-defstruct (bifrost-iterator (:conc-name bifrost--iterator-) (:copier nil))
  "The call of an iterator, which `bifrost-foreach' and `bifrost-rows' record."
  session receiver heading arguments)

(cl-defstruct (bifrost--failure (:copier nil))
  "An exception of the call at position CALL, with its condition.
CALLS are the positions of those that it follows from, CAUSES their failures."
  condition call calls causes)

(defvar bifrost--open nil
  "The session whose structure is being recorded.")

(defun bifrost--check-stub (stub)
  "Signal an error unless STUB is one."
  (unless (bifrost-stub-p stub)
    (bifrost--misuse (if (bifrost-iterator-p stub)
                         "this is the call of an iterator: use bifrost-foreach or bifrost-rows"
                       "a stub is wanted, and this is %S")
                     stub)))

(defsubst bifrost--stub-session (stub)
  "Return the session of STUB."
  (bifrost--type-session (bifrost--stub-type stub)))

(defun bifrost-type (stub)
  "Return the name of STUB's type, a string."
  (bifrost--check-stub stub)
  (bifrost--type-text (bifrost--stub-type stub)))

(defun bifrost-number (session)
  "Return the number of SESSION, for logs."
  (bifrost--number session))

(defun bifrost-server (session)
  "Return the name of the server of SESSION."
  (bifrost--server session))

(defun bifrost-crossings (session)
  "Return the number of flushes of SESSION that were answered."
  (bifrost--crossings session))

(defun bifrost-calls (session)
  "Return the number of methods and routines that SESSION has run."
  (bifrost--calls session))

(defun bifrost-limits (session)
  "Return the limits of SESSION's server, an alist with symbols as keys."
  (bifrost--limits session))

(defun bifrost-history (session)
  "Return the last exceptions of SESSION as conditions, the oldest first."
  (mapcar #'bifrost--failure-condition (reverse (bifrost--history session))))

;;;; Connecting

(defun bifrost--socket (url)
  "Connect to URL, and return the process."
  (let ((nobody (lambda (why)
                  (signal 'bifrost-connect-error
                          (list (format "nobody answers at %s: %s" url why)))))
        (arguments
         (cond
          ((not (stringp url)) (bifrost--misuse "%S is no address" url))
          ((string-match "\\`unix://\\(/.+\\)\\'" url)
           (list :family 'local :service (match-string 1 url)))
          ((string-match "\\`tcp://\\[?\\([^]/]+?\\)\\]?:\\([0-9]+\\)\\'" url)
           (list :host (match-string 1 url) :service (string-to-number (match-string 2 url))
                 :nowait t))
          (t (bifrost--misuse "`%s' is no address for this client: %s" url
                              "it speaks unix:///path and tcp://host:port"))))
        (buffer (generate-new-buffer " *bifrost*"))
        (end (+ (float-time) bifrost-connect-timeout))
        process is-open)
    (unwind-protect
        (condition-case error
            (progn
              (setq process (apply #'make-network-process :name "bifrost" :buffer buffer
                                   :coding 'utf-8-unix :noquery t :sentinel #'ignore arguments))
              (while (and (eq (process-status process) 'connect) (< (float-time) end))
                (accept-process-output process 0.02))
              (pcase (process-status process)
                ('open (setq is-open t))
                ('connect (funcall nobody (format "not within %s seconds" bifrost-connect-timeout)))
                (_ (funcall nobody "the connection is refused"))))
          ;; The rest are the arguments.
          (file-error (funcall nobody (nth 2 error)))
          (bifrost-error (signal (car error) (cdr error)))
          (error (funcall nobody (error-message-string error))))
      (unless is-open
        (when process (delete-process process))
        (kill-buffer buffer)))
    process))

(cl-defun bifrost-connect (url &key (token (getenv "BIFROST_TOKEN")) (name "emacs")
                               (timeout bifrost-timeout))
  "Return a session at the server at URL, as unix:///path or tcp://host:port.
TOKEN is the secret that it asks for, and NAME is shown in its logs.
TIMEOUT is in place of `bifrost-timeout'."
  (unless (or (null timeout) (and (numberp timeout) (> timeout 0)))
    (bifrost--misuse "%S is no time in seconds" timeout))
  (let* ((session (bifrost--make-session :timeout timeout :process (bifrost--socket url)))
         (hello (concat "hello 2 json name " (bifrost--text name)
                        (and token (not (string-empty-p token))
                             (concat " token " (bifrost--text token)))
                        "\n"))
         (welcome (bifrost--ask-lines session hello))
         (is-done nil))
    (unwind-protect
        (progn
          (when (assq 'error welcome)
            (signal 'bifrost-connect-error
                    (list (or (alist-get 'text welcome) (alist-get 'error welcome)))))
          (let ((limits (alist-get 'limits (bifrost--ask-lines session "limits\n"))))
            (unless (and (consp limits)
                         (cl-every (lambda (limit) (natnump (cdr-safe limit))) limits))
              (bifrost--lost session "the server has sent limits that are none"))
            (setf (bifrost--number session) (alist-get 'session welcome)
                  (bifrost--server session) (alist-get 'server welcome)
                  (bifrost--limits session) limits)
            (bifrost--bounds session limits))
          (setq is-done t))
      (unless is-done (bifrost--disconnect session)))
    session))

(defun bifrost--bounds (session limits)
  "Set the bounds of SESSION: a batch is sent before it reaches one of LIMITS."
  (cl-flet ((part (name ratio) (floor (* ratio (alist-get name limits most-positive-fixnum)))))
    (setf (bifrost--lines-max session) (min bifrost-batch-commands-max
                                            (part 'batch_commands_max 0.75))
          (bifrost--line-max session) (min bifrost-line-bytes-max (part 'frame_bytes_max 1.0))
          ;; All results are asked for in one line.
          (bifrost--position-max session) (min (part 'futures_max 0.75)
                                               (max 1 (/ (bifrost--line-max session) 16)))
          (bifrost--bytes-max session) (part 'batch_bytes_max 0.5))))

(defun bifrost--disconnect (session)
  "End the connection of SESSION."
  (when-let ((process (bifrost--process session)))
    (setf (bifrost--process session) nil)
    (delete-process process)
    (kill-buffer (process-buffer process))))

(defun bifrost-close (session)
  "Send the batch of SESSION, and end it."
  (when (bifrost--process session)
    (unwind-protect
        (progn
          (when (zerop (bifrost--depth session)) (bifrost-flush session))
          (bifrost--ask-lines session "bye\n"))
      (bifrost--disconnect session))))

(defmacro bifrost-with-session (binding &rest body)
  "Connect, run BODY, and close the session; return the value of BODY.
BINDING is (VARIABLE URL OPTION...), with the options of `bifrost-connect'.
If BODY is left by a signal or a throw, the batch is not sent."
  (declare (indent 1) (debug ((symbolp form &rest form) body)))
  (let ((session (make-symbol "session")))
    `(let ((,session (bifrost-connect ,@(cdr binding))))
       (unwind-protect
           (let ((,(car binding) ,session))
             (prog1 (progn ,@body) (bifrost-close ,session)))
         (bifrost--disconnect ,session)))))

;;;; Types

(defun bifrost--type (session designator)
  "Return the type of SESSION that DESIGNATOR is: a type, symbol or string."
  (cond
   ((bifrost--type-p designator) designator)
   ((not (or (stringp designator) (and designator (symbolp designator))))
    (bifrost--misuse "a type is a symbol or a string, not %S" designator))
   (t (let ((text (if (symbolp designator) (symbol-name designator) designator)))
        (or (gethash text (bifrost--types session))
            (puthash text (bifrost--parse-type session text) (bifrost--types session)))))))

(defun bifrost--known-type (session designator)
  "Return the type of SESSION that DESIGNATOR is, if the server has it."
  (let ((type (bifrost--type session designator)))
    (bifrost--load type)
    type))

(defun bifrost--parse-type (session text)
  "Return the type of SESSION that TEXT describes, without its methods."
  (if (string-match "\\`\\([[:alnum:]_.]+\\)\\[\\(.*\\)\\]\\'" text)
      (let ((kind (intern (match-string 1 text)))
            (parts (bifrost--split (match-string 2 text))))
        (make-bifrost--type
         :session session :text text
         :kind (pcase kind
                 ((or 'sequence 'array 'vector 'list) 'sequence)
                 ((or 'struct 'record) 'struct)
                 ((or 'oneof 'maybe 'map) kind)
                 (_ 'object))
         :parts (mapcar (lambda (part) (cons (car part) (bifrost--type session (cdr part))))
                        (if (eq kind 'maybe) `((some . ,(cdar parts)) (none . "null")) parts))))
    (make-bifrost--type
     :session session :text text
     :kind (if (member text '("null" "bool" "int" "real" "char" "string" "bytes" "any"))
               (intern text)
             'object))))

(defun bifrost--split (text)
  "Return the parts of TEXT between its outer commas.
These are pairs of a name, or nil, and a type."
  (let ((depth 0) (start 0) parts)
    (cl-flet ((part (end)
                (let ((part (string-trim (substring text start end))))
                  (unless (string-empty-p part)
                    (push (if (string-match "\\`\\([[:alnum:]_]+\\):[ ]*\\(.*\\)" part)
                              (cons (intern (match-string 1 part)) (match-string 2 part))
                            (cons nil part))
                          parts)))))
      (dotimes (i (length text))
        (pcase (aref text i)
          ((or ?\[ ?\() (cl-incf depth))
          ((or ?\] ?\)) (cl-decf depth))
          (?, (when (zerop depth) (part i) (setq start (1+ i))))))
      (part (length text)))
    (nreverse parts)))

(defun bifrost--load (type)
  "Return the methods of TYPE, a table by symbols; ask the server for them."
  (when (eq (bifrost--type-kind type) 'rows)
    (bifrost--misuse "a table has no methods: claim it"))
  (or (bifrost--type-methods type)
      (let ((session (bifrost--type-session type)) (name (bifrost--type-text type)))
        (setf (bifrost--type-methods type)
              (bifrost--headings
               session "."
               (condition-case nil
                   (bifrost-describe session name)
                 (bifrost-line-error
                  (remhash name (bifrost--types session))
                  (bifrost--misuse "the server has no type `%s'" name))))))))

(defun bifrost--headings (session prefix text)
  "Return the headings of SESSION in TEXT, a table by symbols, with PREFIX.
A line is `  fetch (user: string) returns (DataElem) signals (not_found)'."
  (let ((headings (make-hash-table :test 'eq)))
    (dolist (line (split-string text "\n"))
      (when (string-match "\\`  \\([[:alnum:]_.]+\\) \\((.*\\)" line)
        (let* ((name (match-string 1 line))
               (groups (bifrost--groups (match-string 2 line)))
               (types (lambda (word)
                        (mapcar (lambda (part) (bifrost--type session (cdr part)))
                                (bifrost--split (or (cdr (assoc word groups)) ""))))))
          (puthash (intern name)
                   (make-bifrost--heading
                    :name name :call (concat prefix name "(")
                    :parameters (funcall types "")
                    :results (or (funcall types "returns") (funcall types "yields"))
                    :yields (and (assoc "yields" groups) t))
                   headings))))
    headings))

(defun bifrost--groups (text)
  "Return the lists in parentheses of TEXT.
These are pairs of the word before a list, and the text inside."
  (let ((depth 0) (word 0) start groups)
    (dotimes (i (length text))
      (pcase (aref text i)
        (?\( (when (zerop depth) (setq start i))
             (cl-incf depth))
        (?\) (cl-decf depth)
             (when (and start (zerop depth))
               (push (cons (string-trim (substring text word start)) (substring text (1+ start) i))
                     groups)
               (setq word (1+ i) start nil)))))
    groups))

(defun bifrost--heading (type method)
  "Return the heading of METHOD of TYPE."
  (let ((methods (or (bifrost--type-methods type) (bifrost--load type))))
    (or (gethash method methods)
        (and (stringp method) (gethash (intern method) methods))
        (bifrost--misuse "%s has no method `%s'; it has: %s" (bifrost--type-text type) method
                         (bifrost--names-of methods)))))

(defun bifrost--names-of (table)
  "Return the names in TABLE as one text."
  (string-join (sort (mapcar #'symbol-name (hash-table-keys table)) #'string<) ", "))

(defun bifrost--routine (session name)
  "Return the heading of the routine NAME of the program of SESSION."
  (let ((routines
         (or (gethash "" (bifrost--types session))
             (puthash "" (bifrost--headings
                          session "" (replace-regexp-in-string "^" "  " (bifrost-describe session)))
                      (bifrost--types session)))))
    (or (gethash (if (stringp name) (intern name) name) routines)
        (bifrost--misuse "the server has no routine `%s'; it has: %s" name
                         (bifrost--names-of routines)))))

;;;; Recording

(defsubst bifrost--ready (session)
  "Signal an error if nothing can be recorded in SESSION."
  (unless (bifrost--process session)
    (signal 'bifrost-connect-error '("the session has ended"))))

(defun bifrost--line (session line)
  "Record LINE, which ends with a line feed, in SESSION."
  (bifrost--ready session)
  (let ((bytes (string-bytes line)))
    (when (> bytes (bifrost--line-max session))
      (bifrost--misuse "a line of %d bytes is too long: %d are possible" bytes
                       (bifrost--line-max session)))
    (when (and (zerop (bifrost--depth session))
               (> (bifrost--pending-bytes session) bifrost--send-bytes))
      (bifrost--send session))
    (push line (bifrost--pending session))
    (cl-incf (bifrost--pending-bytes session) bytes)
    (cl-incf (bifrost--bytes session) bytes)
    (cl-incf (bifrost--lines session))))

(defun bifrost--begin (session)
  "Signal an error if SESSION has ended, and send a batch that is full.
This comes before operands, whose texts are those of one batch."
  (bifrost--ready session)
  (when (and (or (>= (bifrost--lines session) (bifrost--lines-max session))
                 (>= (bifrost--position session) (bifrost--position-max session))
                 (>= (bifrost--bytes session) (bifrost--bytes-max session))
                 ;; An object takes a name; if most names are taken, batches get short.
                 (> (bifrost--objects session)
                    (max 256 (- bifrost--names-max (hash-table-count (bifrost--kept session))))))
             (zerop (bifrost--depth session))
             (not (bifrost--in-transaction session))
             ;; A table ends with its batch.
             (not (bifrost--has-table session)))
    (bifrost-flush session)))

(defun bifrost--stub (type what)
  "Return a stub of TYPE for the next result of the batch, that of WHAT."
  (let* ((session (bifrost--type-session type))
         (scope (bifrost--scope session))
         (position (cl-incf (bifrost--position session)))
         (stub (bifrost--make-stub :type type :what what :scope scope :position position
                                   :call position)))
    (if scope
        (setf (bifrost--stub-name stub) (concat "$a" (number-to-string
                                                      (cl-incf (bifrost--names session)))))
      (puthash position stub (bifrost--stubs session))
      (unless (memq (bifrost--type-kind type) bifrost--basic)
        (cl-incf (bifrost--objects session))))
    stub))

(defun bifrost--name (session stub)
  "Return the text of STUB as an operand in SESSION, or signal its failure."
  (unless (eq (bifrost--stub-session stub) session)
    (bifrost--misuse "the stub of %s belongs to another session" (bifrost--stub-what stub)))
  (let ((scope (bifrost--stub-scope stub)) (state (bifrost--stub-state stub)))
    (cond
     ((and scope (not (car scope)))
      (bifrost--misuse "the stub of %s ended with its structure" (bifrost--stub-what stub)))
     ((bifrost--stub-name stub))
     ((null state)
      (setf (bifrost--stub-name stub)
            (concat "@" (number-to-string (bifrost--stub-position stub)))))
     ((bifrost--failure-p state) (bifrost--signal session state))
     ((eq (car state) 'value)
      (bifrost--literal session (bifrost--stub-type stub)
                        (bifrost--read (bifrost--stub-type stub) (cdr state))))
     (t (bifrost--misuse "a table ends with its batch")))))

(defun bifrost--receiver (session stub)
  "Return the text of STUB as a receiver in SESSION.
A value that is known is recorded again."
  (let ((name (bifrost--name session stub)))
    (if (memq (aref name 0) '(?@ ?$)) name
      (bifrost--name session (bifrost--record session name (bifrost--stub-type stub) "value")))))

(defun bifrost--target (session count)
  "Return the names or positions of the next COUNT results in SESSION.
The server compares positions with its own."
  (let* ((is-inside (bifrost--scope session))
         (number (if is-inside (bifrost--names session) (bifrost--position session))))
    (mapconcat (lambda (n) (concat (if is-inside "$a" "@") (number-to-string (+ number n))))
               (number-sequence 1 count) ", ")))

(defun bifrost--record (session text type what)
  "Record the command TEXT in SESSION; return a stub of TYPE, that of WHAT."
  (bifrost--line session (concat (bifrost--target session 1) " := " text "\n"))
  (bifrost--stub type what))

(defun bifrost--check-arguments (heading arguments)
  "Signal an error unless there are as many ARGUMENTS as HEADING says."
  (let ((types (bifrost--heading-parameters heading)))
    (unless (= (length types) (length arguments))
      (bifrost--misuse "%s takes %d arguments, not %d" (bifrost--heading-name heading)
                       (length types) (length arguments)))))

(defun bifrost--call-text (session receiver heading arguments)
  "Return the text of a call of HEADING of RECEIVER with ARGUMENTS in SESSION."
  (let ((name (if receiver (bifrost--receiver session receiver) "")))
    (concat name (bifrost--heading-call heading) (bifrost--arguments session heading arguments)
            ")")))

(defun bifrost--arguments (session heading arguments)
  "Return the text of ARGUMENTS of a call of HEADING in SESSION."
  (bifrost--check-arguments heading arguments)
  (let ((types (bifrost--heading-parameters heading)))
    (cond
     ((null types) "")
     ((null (cdr types)) (bifrost--operand session (car types) (car arguments)))
     (t (string-join (cl-mapcar (lambda (type value) (bifrost--operand session type value))
                                types arguments)
                     ", ")))))

(defun bifrost--invoke (session receiver heading arguments)
  "Record a call of HEADING of RECEIVER, or nil, in SESSION, with ARGUMENTS.
Return its result, a list of several, or an iterator."
  (bifrost--begin session)
  (let ((results (bifrost--heading-results heading))
        (what (bifrost--heading-name heading)))
    (cond
     ((bifrost--heading-yields heading)
      (bifrost--check-arguments heading arguments)
      (make-bifrost-iterator :session session :receiver receiver :heading heading
                             :arguments arguments))
     ((cdr results)
      (let ((call (bifrost--call-text session receiver heading arguments)))
        (bifrost--line session
                       (concat (bifrost--target session (length results)) " := " call "\n")))
      (let* ((first (1+ (bifrost--position session)))
             (stubs (mapcar (lambda (type) (bifrost--stub type what)) results)))
        ;; A failure of the call is one of all its results.
        (dolist (stub stubs) (setf (bifrost--stub-call stub) first))
        stubs))
     (t
      (let* ((name (if receiver (bifrost--receiver session receiver) ""))
             (text (bifrost--arguments session heading arguments))
             (is-inside (bifrost--scope session)))
        (bifrost--line session
                       (concat (if is-inside "$a" "@")
                               (number-to-string (1+ (if is-inside (bifrost--names session)
                                                       (bifrost--position session))))
                               " := " name (bifrost--heading-call heading) text ")\n")))
      (bifrost--stub (or (car results) (bifrost--type session "null")) what)))))

(defun bifrost-call (stub method &rest arguments)
  "Record a call of METHOD, a symbol, of STUB with ARGUMENTS.
Return the stub of its result, a list of several, or the call of an iterator,
for `bifrost-foreach'."
  (bifrost--check-stub stub)
  (let ((type (bifrost--stub-type stub)))
    (bifrost--ready (bifrost--type-session type))
    (bifrost--invoke (bifrost--type-session type) stub (bifrost--heading type method) arguments)))

(defmacro bifrost-> (stub &rest chain)
  "Record a CHAIN of calls, from STUB on; return the stub of the last result.
Each is METHOD or (METHOD ARGUMENT...), of the result before it."
  (declare (indent 1) (debug (form &rest [&or symbolp (symbolp &rest form)])))
  (dolist (step chain stub)
    (setq stub `(bifrost-call ,stub ',(or (car-safe step) step) ,@(cdr-safe step)))))

(defun bifrost--effect (session word count receiver heading arguments)
  "Record a call of HEADING in SESSION behind WORD, of RECEIVER with ARGUMENTS.
It has no stub, and takes COUNT positions."
  (bifrost--begin session)
  (bifrost--line session (concat word (bifrost--call-text session receiver heading arguments)
                                 "\n"))
  (cl-incf (bifrost--position session) count)
  nil)

(defun bifrost-run (stub method &rest arguments)
  "Record a call of METHOD of STUB with ARGUMENTS for its effect; return nil.
It costs less than `bifrost-call', since no result comes back."
  (bifrost--check-stub stub)
  (let* ((type (bifrost--stub-type stub)) (heading (bifrost--heading type method)))
    (when (bifrost--heading-yields heading)
      (bifrost--misuse "%s is an iterator: use bifrost-foreach" method))
    (bifrost--effect (bifrost--type-session type) ""
                     (max 1 (length (bifrost--heading-results heading))) stub heading arguments)))

(defun bifrost-send (stub method &rest arguments)
  "Send the actor STUB the message METHOD with ARGUMENTS; nobody waits for it."
  (bifrost--check-stub stub)
  (let ((type (bifrost--stub-type stub)))
    (bifrost--effect (bifrost--type-session type) "send " 1 stub (bifrost--heading type method)
                     arguments)))

(defun bifrost-routine (session name &rest arguments)
  "Record a call of the routine NAME, a symbol, in SESSION with ARGUMENTS."
  (bifrost--ready session)
  (bifrost--invoke session nil (bifrost--routine session name) arguments))

(defun bifrost-lookup (session name type)
  "Return the well-known object with NAME in SESSION.
It has TYPE, or its first use fails."
  (bifrost--outside session "lookup")
  (bifrost--begin session)
  (let ((type (bifrost--known-type session type)))
    (bifrost--record session (concat "lookup " (bifrost--text name) ": " (bifrost--type-text type))
                     type "lookup")))

(defun bifrost-value (session type value)
  "Return VALUE, of TYPE, as a result in SESSION: it has methods."
  (bifrost--begin session)
  (let* ((type (bifrost--type session type)) (text (bifrost--literal session type value)))
    (bifrost--record session text type "value")))

(defun bifrost-contents (stub)
  "Return the contents of the object STUB as a value."
  (bifrost--check-stub stub)
  (let ((session (bifrost--stub-session stub)))
    (bifrost--outside session "contents")
    (bifrost--begin session)
    (bifrost--record session (concat "get " (bifrost--receiver session stub))
                     (bifrost--stub-type stub) "get")))

(defun bifrost--cast (stub word type result)
  "Record WORD and TYPE behind STUB; return a stub of RESULT, or of TYPE."
  (bifrost--check-stub stub)
  (let* ((session (bifrost--stub-session stub))
         (type (bifrost--known-type session type)))
    (bifrost--begin session)
    (bifrost--record session (concat (bifrost--receiver session stub) " " word " "
                                     (bifrost--type-text type))
                     (if result (bifrost--type session result) type) word)))

(defun bifrost-as (stub type)
  "Return the object STUB as one of TYPE; the call fails if it is none."
  (bifrost--cast stub "as" type nil))

(defun bifrost-is (stub type)
  "Return a stub that is true if the object STUB is of TYPE."
  (bifrost--cast stub "is" type "bool"))

(defun bifrost-cell (session type &rest value)
  "Return a new cell of SESSION for values of TYPE, with VALUE if one is given."
  (when (cdr value) (bifrost--misuse "a cell has one value at most"))
  (bifrost--begin session)
  (let* ((type (bifrost--known-type session type))
         (text (bifrost--type-text type))
         (cell (bifrost--record session (concat "cell " text)
                                (bifrost--type session (concat "cell[" text "]")) "cell")))
    (when value (bifrost-put cell (car value)))
    cell))

(defun bifrost-get (cell)
  "Return the stub of the value of CELL."
  (bifrost-call cell 'get))

(defun bifrost-put (cell value)
  "Put VALUE, a stub or a value of Lisp, into CELL."
  (bifrost-run cell 'put value))

;;;; Operators

(defun bifrost--operate (method first second)
  "Record a call of METHOD of FIRST with SECOND, one of which is a stub."
  (unless (bifrost-stub-p first)
    (bifrost--check-stub second)
    (setq first (bifrost-value (bifrost--stub-session second) (bifrost--stub-type second) first)))
  (bifrost-call first method second))

(defmacro bifrost--define-operators (&rest operators)
  "Define functions for OPERATORS.
These are lists of a name, a method, and t if it takes more operands."
  `(progn
     ,@(mapcar
        (pcase-lambda (`(,name ,method ,takes-more))
          `(defun ,name (first second ,@(and takes-more '(&rest more)))
             ,(format "Record a call of `%s' of FIRST with SECOND%s.\nReturn its stub.\n%s"
                      method (if takes-more ", and with each of MORE" "")
                      "One of the operands is a stub.")
             ,(if takes-more
                  `(cl-reduce (lambda (left right) (bifrost--operate ',method left right))
                              more :initial-value (bifrost--operate ',method first second))
                `(bifrost--operate ',method first second))))
        operators)))

(bifrost--define-operators
 (bifrost+ add t) (bifrost* mul t) (bifrost- sub nil) (bifrost/ div nil) (bifrost% mod nil)
 (bifrost< lt nil) (bifrost<= le nil) (bifrost> gt nil) (bifrost>= ge nil) (bifrost= equal nil)
 (bifrost-concat concat t))

;;;; Structures

(defun bifrost--outside (session what)
  "Signal an error if WHAT is in a structure or a transaction of SESSION."
  (unless (zerop (bifrost--depth session)) (bifrost--misuse "%s stands outside structures" what))
  (when (and (bifrost--in-transaction session)
             (member what '("claim" "flush" "commit" "abort" "transaction" "wait")))
    (bifrost--misuse "%s stands outside transactions" what)))

(defun bifrost--structure (session function)
  "Record a structure of SESSION by FUNCTION: whole, or not at all."
  (bifrost--begin session)
  (let ((max (alist-get 'depth_max (bifrost--limits session)))
        (saved (list (bifrost--position session) (bifrost--lines session) (bifrost--bytes session)))
        (bifrost--open session)
        (is-done nil))
    (when (and max (>= (bifrost--depth session) max))
      (bifrost--misuse "structures nest %d deep at most" max))
    (when (zerop (bifrost--depth session))
      (setf (bifrost--before session) (bifrost--pending session)))
    (cl-incf (bifrost--depth session))
    (unwind-protect
        (progn (funcall function) (setq is-done t))
      (cl-decf (bifrost--depth session))
      (unless is-done
        (setf (bifrost--pending session)
              (nthcdr (- (bifrost--lines session) (nth 1 saved)) (bifrost--pending session)))
        (cl-decf (bifrost--pending-bytes session) (- (bifrost--bytes session) (nth 2 saved)))
        (setf (bifrost--position session) (nth 0 saved)
              (bifrost--lines session) (nth 1 saved)
              (bifrost--bytes session) (nth 2 saved)))))
  nil)

(defun bifrost--body (session kind function &optional types)
  "Run FUNCTION, the body of a structure of SESSION, once; KIND is its place.
It gets a function that makes stubs of TYPES, whose names end with the body."
  (let ((scope (bifrost--scope session))
        (places (bifrost--places session))
        (own (list t)))
    (unwind-protect
        (progn
          (setf (bifrost--scope session) own
                (bifrost--places session) (cons kind places))
          (funcall function (mapcar (lambda (type)
                                      (bifrost--stub (bifrost--type session type) "a variable"))
                                    types)))
      (setcar own nil)
      (setf (bifrost--scope session) scope
            (bifrost--places session) places))))

(defun bifrost--declared (session stubs)
  "Return the declaration of STUBS of SESSION with their types."
  (if (null stubs) ""
    (format " (%s)" (mapconcat (lambda (stub)
                                 (concat (bifrost--name session stub) ": " (bifrost-type stub)))
                               stubs ", "))))

(defun bifrost--check-iterator (iterator)
  "Signal an error unless ITERATOR is the call of one."
  (unless (bifrost-iterator-p iterator)
    (bifrost--misuse "the call of an iterator is wanted, and this is %S" iterator)))

(defun bifrost--foreach (iterator function)
  "Record a loop: FUNCTION gets the stubs of each step of ITERATOR."
  (bifrost--check-iterator iterator)
  (let ((session (bifrost--iterator-session iterator))
        (types (bifrost--heading-results (bifrost--iterator-heading iterator))))
    (bifrost--structure
     session
     (lambda ()
       (let ((call (bifrost--iterator-text iterator)))
         (bifrost--body
          session 'loop
          (lambda (stubs)
            (bifrost--line session
                           (concat "foreach "
                                   (mapconcat (lambda (stub) (bifrost--name session stub)) stubs
                                              ", ")
                                   " in " call " do\n"))
            (apply function stubs))
          types))
       (bifrost--line session "end\n")))))

(defun bifrost--iterator-text (iterator)
  "Return the text of the call of ITERATOR."
  (bifrost--call-text (bifrost--iterator-session iterator) (bifrost--iterator-receiver iterator)
                      (bifrost--iterator-heading iterator) (bifrost--iterator-arguments iterator)))

(defmacro bifrost-foreach (binding &rest body)
  "Run BODY at the server for each step of an iterator.
BINDING is (VARIABLE ITERATOR) or ((VARIABLE...) ITERATOR)."
  (declare (indent 1) (debug (([&or symbolp (&rest symbolp)] form) body)))
  `(bifrost--foreach ,(cadr binding)
                     (lambda ,(if (listp (car binding)) (car binding) (list (car binding)))
                       ,@body)))

(defun bifrost--condition (session test)
  "Return the text of the stub TEST as a condition in SESSION."
  (bifrost--check-stub test)
  (bifrost--operand session (bifrost--type session "bool") test)
  (bifrost--receiver session test))

(defun bifrost--if (test then else)
  "Record a choice by TEST, a stub, of the functions THEN and ELSE, or nil."
  (bifrost--check-stub test)
  (let ((session (bifrost--stub-session test)))
    (bifrost--structure
     session
     (lambda ()
       (bifrost--line session (concat "if " (bifrost--condition session test) " then\n"))
       (bifrost--body session 'block (lambda (_) (when then (funcall then))))
       (when else
         (bifrost--line session "else\n")
         (bifrost--body session 'block (lambda (_) (funcall else))))
       (bifrost--line session "end\n")))))

(defmacro bifrost-if (test then &rest else)
  "Run THEN at the server if the stub TEST is true, and otherwise ELSE."
  (declare (indent 2) (debug t))
  `(bifrost--if ,test (lambda () ,then) ,(and else `(lambda () ,@else))))

(defmacro bifrost-when (test &rest body)
  "Run BODY at the server if the stub TEST is true."
  (declare (indent 1) (debug t))
  `(bifrost--if ,test (lambda () ,@body) nil))

(defmacro bifrost-unless (test &rest body)
  "Run BODY at the server unless the stub TEST is true."
  (declare (indent 1) (debug t))
  `(bifrost--if ,test nil (lambda () ,@body)))

(defun bifrost--while (session condition body)
  "Record a loop of SESSION, with the functions CONDITION and BODY."
  (bifrost--structure
   session
   (lambda ()
     (bifrost--line session "while\n")
     (bifrost--body
      session 'block
      (lambda (_)
        (let ((test (funcall condition)))
          (bifrost--line session (concat "do " (bifrost--condition session test) "\n")))
        (bifrost--body session 'loop (lambda (_) (funcall body)))))
     (bifrost--line session "end\n"))))

(defmacro bifrost-while (session test &rest body)
  "Run BODY at the server of SESSION while TEST, which is run there, is true."
  (declare (indent 2) (debug t))
  `(bifrost--while ,session (lambda () ,test) (lambda () ,@body)))

(defun bifrost--leave (word)
  "Record WORD, by which a body is left."
  (unless (and bifrost--open (memq 'loop (bifrost--places bifrost--open)))
    (bifrost--misuse "%s stands in a loop" word))
  (bifrost--line bifrost--open (concat word "\n")))

(defun bifrost-break ()
  "Leave the innermost loop at the server."
  (bifrost--leave "break"))

(defun bifrost-continue ()
  "Begin the next step of the innermost loop at the server."
  (bifrost--leave "continue"))

(defun bifrost--lazy (first second goes-on)
  "Return the value of FIRST, or of the function SECOND if it is GOES-ON."
  (bifrost--check-stub first)
  (let* ((cell (bifrost-cell (bifrost--stub-session first) 'bool first))
         (more (lambda () (bifrost-put cell (funcall second)))))
    (if goes-on (bifrost--if (bifrost-get cell) more nil)
      (bifrost--if (bifrost-get cell) nil more))
    (bifrost-get cell)))

(defmacro bifrost-and (first &rest more)
  "Return a stub that is true if FIRST, a stub, and all of MORE are true.
Each is run at the server if those before it are true."
  (declare (debug t))
  (if more `(bifrost--lazy ,first (lambda () (bifrost-and ,@more)) t) first))

(defmacro bifrost-or (first &rest more)
  "Return a stub that is true if FIRST, a stub, or one of MORE is true.
Each is run at the server if those before it are false."
  (declare (debug t))
  (if more `(bifrost--lazy ,first (lambda () (bifrost-or ,@more)) nil) first))

(defun bifrost--except (session body handlers)
  "Record the function BODY in SESSION with HANDLERS.
These are lists of a signal, types and a function."
  (bifrost--structure
   session
   (lambda ()
     (bifrost--line session "except\n")
     (bifrost--body session 'block (lambda (_) (funcall body)))
     (pcase-dolist (`(,name ,types ,function) handlers)
       (bifrost--body
        session 'block
        (lambda (stubs)
          (bifrost--line session
                         (if (eq name t) (format "others %s\n" (bifrost--name session (car stubs)))
                           (format "when %s%s\n" name (bifrost--declared session stubs))))
          (apply function stubs))
        (if (eq name t) '("string") types)))
     (bifrost--line session "end\n"))))

(defmacro bifrost-except (session bodyform &rest handlers)
  "Run BODYFORM at the server of SESSION, and one of HANDLERS after a signal.
A handler is (SIGNAL ((VARIABLE TYPE)...) BODY...), or at last, for all
others, (t (VARIABLE) BODY...), with a variable for the name of the signal."
  (declare (indent 2) (debug (form form &rest (symbolp sexp body))))
  `(bifrost--except
    ,session (lambda () ,bodyform)
    (list ,@(mapcar
             (pcase-lambda (`(,name ,variables . ,body))
               (let ((names (mapcar (lambda (one) (or (car-safe one) one)) variables))
                     (types (mapcar (lambda (one) (car-safe (cdr-safe one))) variables)))
                 (if (eq name t)
                     `(list t nil (lambda (,(or (car names) '_name)) ,@body))
                   `(list ',name ',types (lambda ,names ,@body)))))
             handlers))))

(defun bifrost--procedure (session name types result function)
  "Define the procedure NAME of SESSION, with TYPES, RESULT, and FUNCTION."
  (unless (zerop (bifrost--depth session))
    (bifrost--misuse "a procedure stands outside other structures"))
  (let* ((types (mapcar (lambda (type) (bifrost--known-type session type)) types))
         (result (and result (bifrost--known-type session result)))
         (name (format "%s" name))
         (heading (make-bifrost--heading :name name :call (concat name "(") :parameters types
                                         :results (and result (list result)))))
    (bifrost--structure
     session
     (lambda ()
       (bifrost--body
        session 'procedure
        (lambda (stubs)
          (bifrost--line session
                         (concat "procedure " name (bifrost--declared session stubs)
                                 (and result (concat " returns " (bifrost--type-text result)))
                                 "\n"))
          (let ((value (apply function stubs)))
            (when result
              (bifrost--line session (concat "return " (bifrost--operand session result value)
                                             "\n")))))
        types)
       (bifrost--line session "end\n")))
    (lambda (&rest arguments) (bifrost--invoke session nil heading arguments))))

(defmacro bifrost-procedure (session name variables result &rest body)
  "Define a procedure of SESSION with NAME; return a function that uses it.
VARIABLES are lists of a variable and its type.  RESULT is the type of the value
of BODY, or nil.  None of these is evaluated."
  (declare (indent 4) (debug (form symbolp sexp sexp body)))
  `(bifrost--procedure ,session ',name ',(mapcar #'cadr variables) ',result
                       (lambda ,(mapcar #'car variables) ,@body)))

(defun bifrost-return (&optional type value)
  "End the run of a procedure early, with VALUE of TYPE as its result."
  (let ((session bifrost--open))
    (unless (and session (memq 'procedure (bifrost--places session)))
      (bifrost--misuse "return stands in a procedure"))
    (bifrost--line session
                   (if type (concat "return " (bifrost--operand session (bifrost--type session type)
                                                                value)
                                    "\n")
                     "return\n"))))

(defun bifrost--rows (iterator types function)
  "Record a table with columns of TYPES: a row of FUNCTION for each of ITERATOR."
  (bifrost--check-iterator iterator)
  (let* ((session (bifrost--iterator-session iterator))
         (types (mapcar (lambda (type) (bifrost--known-type session type)) types))
         (columns (mapcar (lambda (type) (cons nil type)) types))
         (rows (progn
                 (bifrost--outside session "rows")
                 (bifrost--begin session)
                 (bifrost--record session
                                  (concat "rows " (mapconcat #'bifrost--type-text types ", "))
                                  (make-bifrost--type :session session :text "rows" :kind 'rows
                                                      :parts columns)
                                  "rows"))))
    (setf (bifrost--has-table session) t)
    (bifrost--foreach
     iterator
     (lambda (&rest stubs)
       (let ((row (apply function stubs)))
         (unless (and (proper-list-p row) (= (length row) (length types)))
           (bifrost--misuse "a row is a list of %d values, and this is %S" (length types) row))
         (bifrost--line session
                        (concat "emit " (bifrost--name session rows) ", "
                                (string-join
                                 (cl-mapcar (lambda (type value)
                                              (bifrost--operand session type value))
                                            types row)
                                 ", ")
                                "\n"))
         (cl-incf (bifrost--position session)))))
    rows))

(defmacro bifrost-rows (binding types &rest body)
  "Return the stub of a table with columns of TYPES, a list.
BINDING is that of `bifrost-foreach', and the value of BODY a list, a row.
The claim of the table is a list of lists."
  (declare (indent 2) (debug (([&or symbolp (&rest symbolp)] form) form body)))
  `(bifrost--rows ,(cadr binding) ,types
                  (lambda ,(if (listp (car binding)) (car binding) (list (car binding))) ,@body)))

;;;; Transactions

(cl-defun bifrost--transaction (session function &key (tries 0) batch)
  "Run FUNCTION as a transaction of SESSION.
TRIES and BATCH are those of `bifrost-transaction'."
  (unless (and (natnump tries) (< tries 65536))
    (bifrost--misuse "a transaction is tried from 0 (as the server likes) to 65535 times"))
  (let ((case-fold-search nil))
    (unless (or (null batch)
                (and (stringp (car batch)) (natnump (cadr batch))
                     (string-match-p "\\`[0-9a-f]\\{32\\}\\'" (car batch))))
      (bifrost--misuse "a batch has 32 hexadecimal digits and a number")))
  (bifrost--outside session "transaction")
  (bifrost-flush session)
  (bifrost--tell session "transaction")
  (bifrost--clear session)
  (let ((done (bifrost--record session
                               (concat "transaction" (and (> tries 0) (format " %d" tries))
                                       (and batch (format " batch \"%s\" %d" (car batch)
                                                          (cadr batch))))
                               (bifrost--type session "null") "transaction"))
        is-done value)
    (unwind-protect
        (progn
          (setf (bifrost--in-transaction session) done)
          (setq value (funcall function)
                is-done t))
      (setf (bifrost--in-transaction session) nil)
      (when (and (not is-done) (bifrost--process session))
        ;; The server runs what was recorded, up to the abort.
        (bifrost--line session "abort\n")
        (cl-incf (bifrost--position session))
        (bifrost-flush session)
        (setf (bifrost--untold session) nil)))
    (let ((first (cl-find-if-not (lambda (failure) (eq (car failure) 'bifrost-refused-Unseen))
                                 (bifrost-flush session))))
      (setf (bifrost--untold session) nil)
      ;; It is not committed after a failure, which says more than its own.
      (when (and first (bifrost--failure-p (bifrost--stub-state done)))
        (signal (car first) (cdr first)))
      (bifrost-claim done))
    value))

(defmacro bifrost-transaction (options &rest body)
  "Run BODY as a transaction, a batch of its own; return its value.
OPTIONS are (SESSION OPTION...).  The server runs it again after a conflict,
`:tries' times, or as often as it likes.  With `:batch', a list of 32
hexadecimal digits and a number, it is done once, however often it is sent, and
by any session.  BODY is recorded once, and claims nothing."
  (declare (indent 1) (debug ((&rest form) body)))
  `(bifrost--transaction ,(car options) (lambda () ,@body) ,@(cdr options)))

(defun bifrost-commit (session)
  "Commit the transaction of SESSION, and begin the next one.
If a failure was not claimed, this signals it, and nothing is committed."
  (bifrost--outside session "commit")
  (bifrost-flush session)
  (bifrost--tell session "commit")
  (bifrost--clear session)
  (bifrost-claim (bifrost--record session "commit" (bifrost--type session "null") "commit")))

(defun bifrost-abort (session)
  "Abort the transaction of SESSION, and begin the next one."
  (bifrost--outside session "abort")
  (bifrost-flush session)
  (setf (bifrost--untold session) nil)
  (bifrost-claim (bifrost--record session "abort" (bifrost--type session "null") "abort")))

(defun bifrost--clear (session)
  "Say that the program knows all failures of SESSION.
The server commits nothing before."
  (when (bifrost--has-failed session)
    (setf (bifrost--has-failed session) nil)
    (bifrost--line session "clear\n")))

(defun bifrost--tell (session word)
  "Signal the first failure of SESSION that nobody claimed; it prevents WORD."
  (when-let ((untold (bifrost--untold session)))
    (setf (bifrost--untold session) nil)
    (pcase-let ((`(,condition ,text . ,data) (bifrost--failure-condition (car untold))))
      (signal condition
              (cons (concat word " was not sent: " text
                            (and (cdr untold)
                                 (format ", and %d more failures" (length (cdr untold)))))
                    data)))))

(defun bifrost-wait (session milliseconds)
  "Wait in SESSION until others change an object that the transaction has read.
The stub that is returned is true then, and false after MILLISECONDS."
  (bifrost--outside session "wait")
  (bifrost--begin session)
  (unless (natnump milliseconds) (bifrost--misuse "%S are no milliseconds" milliseconds))
  (prog1 (bifrost--record session (format "wait %d" milliseconds) (bifrost--type session "bool")
                          "wait")
    (cl-incf (bifrost--waits session) (/ milliseconds 1000.0))))

(defun bifrost--live (session record show)
  "Call SHOW with the results of RECORD, run in SESSION, after each change."
  (bifrost-commit session)
  (cl-flet ((claimed (result) (if (listp result) (mapcar #'bifrost-claim result)
                                (bifrost-claim result))))
    (let ((result (funcall record)))
      (while (funcall show (claimed result))
        ;; A wait and the next run are one crossing.
        (while (let ((changed (bifrost-wait session bifrost-live-milliseconds)))
                 (setq result (funcall record))
                 (not (bifrost-claim changed))))))))

(defmacro bifrost-live (binding &rest body)
  "Run a batch, and again whenever others may have changed its results.
BINDING is (VARIABLE SESSION FORM): FORM records the batch, and its value is a
stub or a list of stubs.  VARIABLE is the claimed value, or their list, in BODY.
It ends when the value of BODY is nil."
  (declare (indent 1) (debug ((symbolp form form) body)))
  `(bifrost--live ,(cadr binding) (lambda () ,(nth 2 binding)) (lambda (,(car binding)) ,@body)))

;;;; Results

(defun bifrost-claim (stub)
  "Return the value of STUB; send the batch if the server has not told it.
Signal the exception if its call failed.  Of an object it is the stub itself."
  (bifrost--check-stub stub)
  (let ((session (bifrost--stub-session stub)))
    (bifrost--outside session "claim")
    (unless (bifrost--stub-state stub) (bifrost-flush session))
    (let ((state (bifrost--stub-state stub)))
      (cond
       ((bifrost--failure-p state) (bifrost--signal session state))
       ((eq (car state) 'handle) stub)
       (state (bifrost--read (bifrost--stub-type stub) (cdr state)))
       (t (bifrost--misuse "the result of %s was not told: its structure has ended"
                           (bifrost--stub-what stub)))))))

(defun bifrost--signal (session failure)
  "Signal FAILURE, of SESSION: the program knows it then, and its causes."
  (setf (bifrost--untold session)
        (cl-set-difference (bifrost--untold session)
                           (cons failure (bifrost--failure-causes failure))))
  (let ((condition (bifrost--failure-condition failure)))
    (signal (car condition) (cdr condition))))

(defun bifrost-list (iterator &optional max)
  "Send the batch; return the first values of ITERATOR, MAX or 1000 at most."
  (bifrost--check-iterator iterator)
  (let ((session (bifrost--iterator-session iterator))
        (type (car (bifrost--heading-results (bifrost--iterator-heading iterator)))))
    (bifrost-flush session)
    (let ((answer (bifrost--ask session (format "list %d %s\n" (or max 1000)
                                                (bifrost--iterator-text iterator)))))
      (bifrost--reset session)
      (seq-doseq (told (bifrost--items session answer 'exceptions))
        (bifrost--signal session (bifrost--failure told (make-hash-table))))
      (mapcar (lambda (item)
                (unless (assq 'value item)
                  (bifrost--misuse "the values are objects: use bifrost-foreach or bifrost-rows"))
                (bifrost--read type (alist-get 'value item)))
              (bifrost--items session answer 'values)))))

(defun bifrost-describe (session &optional type)
  "Return the text of the server of SESSION about TYPE, or about all."
  (bifrost--part session (bifrost--ask session (format "describe %s\n" (or type ""))) 'text))

(defun bifrost-explain (session)
  "Return the commands of the batch of SESSION as text."
  (bifrost--part session (bifrost--ask session "explain\n") 'text))

(defun bifrost-flush (session)
  "Send the batch of SESSION; return the exceptions of it as conditions."
  (bifrost--outside session "flush")
  (when (> (bifrost--lines session) 0)
    (bifrost--ready session)
    (let* ((asked (bifrost--asked session))
           (answer (bifrost--ask-lines
                    session (if asked
                                (concat "? "
                                        (mapconcat #'bifrost--stub-asked asked ", ")
                                        "\n")
                              ;; A `flush' would be answered with all that has a name.
                              "? nil\n")))
           (results (if (assq 'error answer)
                        (bifrost--lost session "%s: %s" (alist-get 'error answer)
                                       (alist-get 'text answer))
                      (bifrost--items session answer 'results)))
           (failures (bifrost--failures (bifrost--items session answer 'exceptions)))
           (by-call (bifrost--by-call failures #'bifrost--failure-call)))
      (unless (= (length results) (max 1 (length asked)))
        (bifrost--lost session "the server has sent other results than were asked for"))
      (cl-incf (bifrost--crossings session))
      (cl-incf (bifrost--calls session) (or (alist-get 'calls answer) 0))
      (cl-loop for stub in asked for result across results
               do (bifrost--settle session stub result failures by-call))
      (setf (bifrost--untold session) (append (bifrost--untold session) failures)
            (bifrost--history session)
            (seq-take (append (reverse failures) (bifrost--history session)) bifrost-history-max)
            (bifrost--has-failed session) (or (bifrost--has-failed session) (consp failures)))
      (bifrost--reset session)
      (mapcar #'bifrost--failure-condition failures))))

(defun bifrost--reset (session)
  "Begin the next batch of SESSION."
  (setf (bifrost--position session) 0
        (bifrost--objects session) 0
        (bifrost--has-table session) nil
        (bifrost--lines session) 0
        (bifrost--bytes session) 0
        (bifrost--waits session) 0)
  (clrhash (bifrost--stubs session)))

(defun bifrost--settle (session stub result failures by-call)
  "Give STUB of SESSION its state by RESULT, or by one of FAILURES.
BY-CALL has these by their calls."
  (unless (equal (alist-get 'name result) (bifrost--stub-asked stub))
    (bifrost--lost session "the server has sent a result that was not asked for"))
  (setf (bifrost--stub-asked stub) nil)
  (unless (setf (bifrost--stub-state stub)
                (or (assq 'value result) (assq 'handle result) (assq 'rows result)))
    ;; A failure is signalled wherever its stub is used.
    (setf (bifrost--stub-name stub) nil
          (bifrost--stub-state stub)
          (or (if (assq 'not_reached result) (car (last failures))
                (gethash (bifrost--stub-call stub) by-call))
              (make-bifrost--failure
               :condition (list 'bifrost-signal
                                (format "%s was not run" (bifrost--stub-what stub))
                                nil nil nil))))))

(defun bifrost--living (session)
  "Return the living stubs of this batch of SESSION, in order."
  (let ((stubs (bifrost--stubs session)) living)
    (when (> (hash-table-count stubs) 0)
      (cl-loop for position from (bifrost--position session) downto 1
               do (when-let ((stub (gethash position stubs))) (push stub living))))
    living))

(defun bifrost--asked (session)
  "Return the living stubs of this batch of SESSION.
Those that may be objects get names; those of dead objects are given back."
  (let* ((kept (bifrost--kept session))
         (max (* 0.75 (alist-get 'handles_max (bifrost--limits session) most-positive-fixnum)))
         (objects (+ (bifrost--objects session) (length (bifrost--kept-names session)))))
    ;; Many of these may be dead without a collection that has found it.
    (when (> objects (min max bifrost--names-max)) (garbage-collect))
    (unless (= (bifrost--sweeps session) gcs-done)
      (setf (bifrost--sweeps session) gcs-done)
      (let (living dead)
        (dolist (name (bifrost--kept-names session))
          (if (gethash name kept) (push name living) (push (format "$a%d" name) dead)))
        (setf (bifrost--kept-names session) living)
        (while dead
          (let ((some (cl-loop repeat 1000 while dead collect (pop dead))))
            (bifrost--line session (concat "free " (string-join some ", ") "\n"))))))
    (let ((living (bifrost--living session)))
      (dolist (stub living)
        (setf (bifrost--stub-asked stub)
              (or (bifrost--stub-name stub)
                  (concat "@" (number-to-string (bifrost--stub-position stub))))
              (bifrost--stub-name stub) nil)
        (unless (memq (bifrost--type-kind (bifrost--stub-type stub)) bifrost--basic)
          (let* ((number (cl-incf (bifrost--names session))) (name (format "$a%d" number)))
            (bifrost--line session (concat name " := " (bifrost--stub-asked stub) "\n"))
            (setf (bifrost--stub-name stub) name)
            (puthash number stub kept)
            (push number (bifrost--kept-names session)))))
      living)))

;;;; Failures

(defun bifrost--by-call (items call)
  "Return a table of ITEMS by the values of the function CALL."
  (let ((table (make-hash-table)))
    (seq-doseq (item items) (puthash (funcall call item) item table))
    table))

(defun bifrost--failures (told)
  "Return the failures of a batch, those in TOLD, a vector of exceptions."
  (let* ((causes (bifrost--by-call told (lambda (one) (alist-get 'call one))))
         (failures (mapcar (lambda (one) (bifrost--failure one causes)) told))
         (by-call (bifrost--by-call failures #'bifrost--failure-call)))
    (dolist (failure failures)
      (setf (bifrost--failure-causes failure)
            (delq nil (mapcar (lambda (call) (gethash call by-call))
                              (bifrost--failure-calls failure)))))
    failures))

(defun bifrost--failure (told causes)
  "Return the failure of the exception TOLD.
CAUSES has all of its batch by their positions."
  (let ((root told) via calls unhandled)
    (while (setq unhandled (alist-get 'unhandled root))
      (push (alist-get 'name root) via)
      (push (alist-get 'call root) calls)
      (let* ((number (alist-get 'cause unhandled))
             (cause (gethash number causes)))
        ;; A cause stands before what was not run because of it.
        (setq root (if (and cause (< number (or (alist-get 'call root) 0))) cause
                     '((name . "an earlier call"))))))
    (make-bifrost--failure
     :condition (bifrost--failed-condition root (reverse via))
     :call (alist-get 'call told)
     :calls (delq nil (cons (alist-get 'call root) calls)))))

(defun bifrost--failed-condition (root via)
  "Return the condition of the exception ROOT, for which VIA were not run."
  (let* ((refused (alist-get 'refused root))
         (name (or (alist-get 'signal root) refused "unhandled_exc"))
         (condition (intern (format "bifrost-%s-%s" (if refused "refused" "signal") name)))
         (values (mapcar (lambda (item)
                           (bifrost--plain (cdr (or (assq 'value item) (assq 'handle item)))))
                         (alist-get 'values root)))
         (text (if refused (format "%s was refused: %s" (alist-get 'name root "the batch")
                                   (alist-get 'text root))
                 (format "%s signals %s" (alist-get 'name root) name))))
    (unless (get condition 'error-conditions)
      (apply #'define-error condition (if refused '("Bifrost refusal" bifrost-refused)
                                        '("Bifrost exception" bifrost-signal))))
    (list condition
          (concat text
                  (and values (format "(%s)" (mapconcat (lambda (value) (format "%s" value))
                                                        values ", ")))
                  (and via (concat "; not run: " (string-join (reverse via) ", "))))
          values via (append (alist-get 'rounds root) nil))))

;;;; The conversation

(defun bifrost--lost (session why &rest values)
  "End SESSION, and signal WHY, a format of VALUES."
  (bifrost--disconnect session)
  (signal 'bifrost-connect-error (list (apply #'format why values))))

(defun bifrost--send (session &optional more)
  "Send the lines of SESSION that wait, and the text MORE, if there is one.
Lines of an open structure go on waiting."
  (bifrost--ready session)
  ;; In batch mode Emacs dies of a write to a connection that is closed, unless it knows of that.
  (accept-process-output (bifrost--process session) 0)
  (let* ((all (bifrost--pending session))
         (is-open (> (bifrost--depth session) 0))
         (before (if is-open (bifrost--before session) all))
         (lines (if more (cons more before) before))
         (process (bifrost--process session))
         (limit (bifrost--timeout session))
         (is-done nil))
    (setf (bifrost--pending session) (and is-open (cl-ldiff all before))
          (bifrost--before session) nil
          (bifrost--pending-bytes session)
          (cl-loop for line in (bifrost--pending session) sum (string-bytes line)))
    (unwind-protect
        (condition-case error
            (let ((text (apply #'concat (reverse lines))))
              (cl-incf (bifrost--lines-sent session) (length lines))
              (if limit
                  (with-timeout
                      (limit (bifrost--lost session "the server has taken no more for %s seconds"
                                            limit))
                    (process-send-string process text))
                (process-send-string process text))
              (setq is-done t))
          (bifrost-error (signal (car error) (cdr error)))
          (error (bifrost--lost session "the server takes no more: %s"
                                (error-message-string error))))
      ;; Lines that are cut by a quit would be no lines.
      (unless is-done (bifrost--disconnect session)))))

(defun bifrost--ask-lines (session lines)
  "Send what waits in SESSION and LINES; return the answer, an alist."
  (when (bifrost--busy session) (bifrost--misuse "the session waits for an answer"))
  (let ((is-done nil))
    (unwind-protect
        (progn
          (setf (bifrost--busy session) t)
          (bifrost--send session lines)
          (prog1 (bifrost--answer session) (setq is-done t)))
      (setf (bifrost--busy session) nil)
      ;; After a quit the answer would be taken for that of the next batch.
      (unless is-done (bifrost--disconnect session)))))

(defun bifrost--ask (session line)
  "Send LINE, which is answered at once, in SESSION; return the answer."
  (let ((answer (bifrost--ask-lines session line)))
    (pcase (alist-get 'error answer)
      ('nil answer)
      ;; The answer to another line says that this library has recorded something wrong.
      ((and "BadLine" (guard (eql (alist-get 'line answer) (bifrost--lines-sent session))))
       (signal 'bifrost-line-error
                         (list (format "the server does not take a line, column %s: %s"
                                       (alist-get 'column answer) (alist-get 'text answer)))))
      (error (bifrost--lost session "%s: %s" error (alist-get 'text answer))))))

(defun bifrost--answer (session)
  "Wait for a line of JSON from the server of SESSION; return it as an alist."
  (let* ((process (bifrost--process session))
         (limit (bifrost--timeout session))
         (end (and limit (+ (float-time) limit (bifrost--waits session))))
         (read-process-output-max (max read-process-output-max 65536)))
    (with-current-buffer (process-buffer process)
      (while (progn (goto-char (point-min))
                    (not (search-forward "\n" (+ (point) bifrost-answer-bytes-max) t)))
        (when (> (buffer-size) bifrost-answer-bytes-max)
          (bifrost--lost session "an answer is longer than %d bytes" bifrost-answer-bytes-max))
        (let ((left (and end (- end (float-time)))))
          (when (and left (<= left 0))
            (bifrost--lost session "no answer came within %s seconds" limit))
          (unless (or (accept-process-output process left) (process-live-p process)
                      (save-excursion (goto-char (point-min)) (search-forward "\n" nil t)))
            (bifrost--lost session "the server has ended the session"))))
      (let* ((end (point))
             (answer (condition-case nil (bifrost--parse (point-min) end) (error 'none))))
        (delete-region (point-min) end)
        (unless (bifrost--object-p answer)
          (bifrost--lost session "the server has sent a line that is no answer"))
        answer))))

(defun bifrost--parse (start end)
  "Return the value of JSON between START and END.
Objects are alists, and lists are vectors."
  (goto-char start)
  (prog1
      ;; The parser of Emacs takes no character 0.
      (if (and (fboundp 'json-parse-buffer) (json-available-p)
               (not (search-forward "\\u0000" end t)))
          (json-parse-buffer :object-type 'alist :null-object :null :false-object :false)
        (goto-char start)
        (let ((json-object-type 'alist) (json-array-type 'vector) (json-key-type 'symbol)
              (json-null :null) (json-false :false))
          (json-read)))
    (skip-chars-forward " \t\r")
    (unless (= (point) (1- end)) (error "More than a value"))))

(defun bifrost--object-p (value)
  "Return non-nil if VALUE is an object of JSON."
  (and (listp value) (or (null value) (consp (car value)))))

(defun bifrost--part (session answer part)
  "Return PART, a text, of ANSWER of SESSION."
  (let ((text (alist-get part answer)))
    (if (stringp text) text
      (bifrost--lost session "the server has sent an answer without %s" part))))

(defun bifrost--items (session answer part)
  "Return PART, a list of objects, of ANSWER of SESSION."
  (let ((items (alist-get part answer)))
    (if (and (vectorp items) (cl-loop for item across items always (bifrost--object-p item)))
        items
      (bifrost--lost session "the server has sent an answer without %s" part))))

;;;; Values

(defun bifrost--text (text)
  "Return the string TEXT in quotes."
  (unless (stringp text) (bifrost--misuse "a string is wanted, and this is %S" text))
  (cond
   ((string-match-p "\\`[] !#-[^-~]*\\'" text) (concat "\"" text "\""))
   ((string-match-p "[^\0-\U0010ffff]\\|[\ud800-\udfff]" text)
    (bifrost--misuse "%S is no text, but bytes" text))
   ((and (not (multibyte-string-p text)) (string-match-p "[^[:ascii:]]" text))
    (bifrost--misuse "%S is no text, but bytes" text))
   (t (json-encode-string text))))

(defun bifrost--operand (session type value)
  "Return the text of VALUE, a stub or a value, as one of TYPE in SESSION."
  (if (not (bifrost-stub-p value)) (bifrost--literal session type value)
    (prog1 (bifrost--name session value)
      (let ((own (bifrost--stub-type value)))
        (unless (or (eq own type)
                    (not (memq (bifrost--type-kind type) bifrost--basic))
                    (not (memq (bifrost--type-kind own) bifrost--basic)))
          (bifrost--misuse "a %s is wanted, and this is a %s" (bifrost--type-text type)
                           (bifrost--type-text own)))))))

(defun bifrost--no (type value &optional what)
  "Signal that VALUE is none of TYPE, or no WHAT."
  (bifrost--misuse "%S is no %s" value (or what (bifrost--type-text type))))

(defun bifrost--literal (session type value)
  "Return the text of VALUE, a value of Lisp, as one of TYPE in SESSION."
  (pcase (bifrost--type-kind type)
    ('int (cond ((fixnump value) (number-to-string value))
                ((not (integerp value)) (bifrost--no type value))
                ((<= (- (ash 1 63)) value (1- (ash 1 63))) (number-to-string value))
                (t (bifrost--no type value "int of 64 bits"))))
    ('real (bifrost--real session type value))
    ('bool (pcase value ('t "true") ('nil "false") (_ (bifrost--no type value))))
    ('null (if value (bifrost--no type value "nil") "nil"))
    ('string (if (stringp value) (bifrost--text value) (bifrost--no type value)))
    ('char (if (and (characterp value) (<= value #x10ffff) (not (<= #xd800 value #xdfff)))
               (format "'\\u{%x}'" value)
             (bifrost--no type value)))
    ('bytes (if (and (stringp value) (or (not (multibyte-string-p value))
                                         (string-match-p "\\`[[:ascii:]]*\\'" value)))
                (concat "x\"" (encode-hex-string (string-to-unibyte value)) "\"")
              (bifrost--no type value)))
    ('sequence
     (unless (or (proper-list-p value) (vectorp value))
       (bifrost--no type value (concat (bifrost--type-text type) ": it is a list or a vector")))
     (let ((of (cdar (bifrost--type-parts type))))
       (concat "{" (mapconcat (lambda (item) (bifrost--operand session of item)) value ", ") "}")))
    ('struct (bifrost--struct session type value))
    ((or 'oneof 'maybe)
     (let* ((tag (if (consp value) (car value) value))
            (part (and tag (symbolp tag) (assq tag (bifrost--type-parts type)))))
       (unless part
         (bifrost--no type value (concat (bifrost--type-text type)
                                         ": it is a tag and its value, (TAG . VALUE)")))
       (format "{%s: %s}" tag (bifrost--operand session (cdr part) (cdr-safe value)))))
    (_ (bifrost--misuse "a %s is a stub, not %S" (bifrost--type-text type) value))))

(defun bifrost--real (session type value)
  "Return the text of VALUE as a real, of TYPE, in SESSION, exactly."
  (let ((real (if (integerp value) (float value) value)))
    (cond
     ((not (floatp real)) (bifrost--no type value))
     ((isnan real) (bifrost--quotient session 0.0))
     ((= real 1.0e+INF) (bifrost--quotient session 1.0))
     ((= real -1.0e+INF) (bifrost--quotient session -1.0))
     ((/= real value) (bifrost--no type value "real: it has too many digits"))
     (t (let ((text (number-to-string real)))
          (if (string-search "." text) text (string-replace "e" ".0e" text)))))))

(defun bifrost--quotient (session real)
  "Return the text of REAL by 0 in SESSION: infinities and NaN have no other."
  (let* ((type (bifrost--type session "real"))
         (value (bifrost--record session (number-to-string real) type "value")))
    (bifrost--name session (bifrost--record session
                                            (concat (bifrost--name session value) ".div(0.0)")
                                            type "div"))))

(defun bifrost--struct (session type value)
  "Return the text of the alist VALUE as a struct of TYPE in SESSION."
  (let ((parts (bifrost--type-parts type)) (text (bifrost--type-text type)))
    (unless (and (proper-list-p value) (cl-every #'consp value))
      (bifrost--no type value (concat text ": it is an alist")))
    (dolist (field value)
      (unless (assq (car field) parts) (bifrost--misuse "a %s has no field `%s'" text (car field))))
    (concat "{"
            (mapconcat (lambda (part)
                         (let ((field (or (assq (car part) value)
                                          (bifrost--misuse "a %s has the field `%s'" text
                                                           (car part)))))
                           (format "%s: %s" (car part)
                                   (bifrost--operand session (cdr part) (cdr field)))))
                       parts ", ")
            "}")))

(defun bifrost--read (type value)
  "Return VALUE, as it came in JSON, as a value of Lisp of TYPE."
  (condition-case nil (bifrost--read-as type value)
    (error
     (signal 'bifrost-error (list (format "the server has sent %S, which is no %s" value
                                          (bifrost--type-text type)))))))

(defun bifrost--read-as (type value)
  "Return VALUE as one of TYPE; signal `wrong-type-argument' if it is none."
  (let ((parts (bifrost--type-parts type)))
    (pcase (bifrost--type-kind type)
      ((and 'int (guard (integerp value))) value)
      ((and 'string (guard (stringp value))) value)
      ((and 'bool (guard (memq value '(t :false)))) (eq value t))
      ((and 'null (guard (eq value :null))) nil)
      ((and 'char (guard (and (stringp value) (= (length value) 1)))) (aref value 0))
      ((and 'real (guard (numberp value))) (float value))
      ((and 'real (guard (member value '("inf" "-inf" "NaN"))))
       (pcase value ("inf" 1.0e+INF) ("-inf" -1.0e+INF) (_ 0.0e+NaN)))
      ((and 'bytes (guard (and (consp value) (stringp (alist-get 'bytes value)))))
       (bifrost--plain value))
      ((and 'sequence (guard (vectorp value)))
       (mapcar (lambda (item) (bifrost--read-as (cdar parts) item)) value))
      ((and 'map (guard (vectorp value)))
       (mapcar (lambda (pair) (cons (bifrost--read-as (cdar parts) (aref pair 0))
                                    (bifrost--read-as (cdadr parts) (aref pair 1))))
               value))
      ((or (and 'struct (guard (eql (proper-list-p value) (length parts))))
           (and (or 'oneof 'maybe) (guard (and (eql (proper-list-p value) 1)
                                               (not (assq 'handle value))))))
       (let ((fields (mapcar (lambda (field)
                               (cons (car field)
                                     (bifrost--read-as (cdr (assq (car field) parts))
                                                       (cdr field))))
                             value)))
         (if (eq (bifrost--type-kind type) 'struct) fields (car fields))))
      ((and 'rows (guard (vectorp value)))
       (mapcar (lambda (row)
                 (unless (= (length row) (length parts)) (signal 'wrong-type-argument nil))
                 (cl-mapcar (lambda (part item) (bifrost--read-as (cdr part) item)) parts row))
               value))
      ;; An object in a value is its handle.
      ((guard (and (proper-list-p value) (natnump (alist-get 'handle value))))
       (bifrost--plain value))
      ('any (bifrost--plain value))
      (_ (signal 'wrong-type-argument nil)))))

(defun bifrost--plain (value)
  "Return VALUE, as it came in JSON, as a value of Lisp."
  (pcase value
    ((or :null :false) nil)
    ((pred vectorp) (mapcar #'bifrost--plain value))
    (`((bytes . ,(and (pred stringp) digits))) (decode-hex-string digits))
    ((pred consp) (mapcar (lambda (field) (cons (car field) (bifrost--plain (cdr field)))) value))
    (_ value)))

(provide 'bifrost)
;;; bifrost.el ends here
