;;; redis.el --- A peer of `bifrost bench veneers': Redis  -*- lexical-binding: t; -*-

;;; Commentary:

;; It connects to the unix socket that is its argument, and speaks the protocol of Redis itself: a
;; command is an array of strings, and replies come in the order of commands.

;;; Code:

(defvar redis-process nil "The connection.")

(defun redis-connect (path)
  "Connect to the server at PATH."
  (setq redis-process
        (make-network-process :name "redis" :buffer (generate-new-buffer " *redis*") :family 'local
                              :service path :noquery t :coding 'binary)))

(defun redis-command (words)
  "Return the text of the command WORDS."
  (apply #'concat (format "*%d\r\n" (length words))
         (mapcar (lambda (word)
                   (let ((bytes (encode-coding-string word 'utf-8)))
                     (format "$%d\r\n%s\r\n" (length bytes) bytes)))
                 words)))

(defun redis-send (text)
  "Send TEXT; the buffer has its replies then."
  (with-current-buffer (process-buffer redis-process)
    (erase-buffer)
    (process-send-string redis-process text)))

(defun redis-wait (place)
  "Wait for more bytes, and go to PLACE."
  (unless (accept-process-output redis-process 60) (error "No answer"))
  (goto-char place))

(defun redis-line ()
  "Return the line at point, and go behind it."
  (let ((begin (point)))
    (while (not (search-forward "\r\n" nil t)) (redis-wait begin))
    (buffer-substring begin (- (point) 2))))

(defun redis-bytes (count)
  "Return the string of COUNT bytes at point, and go behind its end."
  (let* ((begin (point)) (end (+ begin count)))
    (while (< (point-max) (+ end 2)) (redis-wait begin))
    (goto-char (+ end 2))
    (decode-coding-string (buffer-substring begin end) 'utf-8)))

(defun redis-read ()
  "Return the reply at point, and go behind it."
  (let* ((line (redis-line)) (rest (substring line 1)))
    (pcase (aref line 0)
      ((or ?+ ?:) rest)
      (?- (error "%s" rest))
      (?$ (let ((count (string-to-number rest))) (unless (< count 0) (redis-bytes count))))
      (?* (let (list)
            (dotimes (_ (string-to-number rest)) (push (redis-read) list))
            (nreverse list)))
      (_ (error "`%s' is no reply" line)))))

(defun redis-replies (count)
  "Return the next COUNT replies."
  (with-current-buffer (process-buffer redis-process)
    (goto-char (point-min))
    (let (replies)
      (dotimes (_ count) (push (redis-read) replies))
      (nreverse replies))))

(defun redis-call (&rest words)
  "Return the reply to the command WORDS."
  (redis-send (redis-command words))
  (car (redis-replies 1)))

(defun redis-echo (n)
  "Return the answer to N."
  (string-to-number (redis-call "ECHO" (number-to-string n))))

(defun redis-begin (count)
  "Begin COUNT calls that do not wait for each other."
  (let (texts)
    (dotimes (n count) (push (redis-command (list "ECHO" (number-to-string n))) texts))
    (redis-send (apply #'concat (nreverse texts)))))

(defun redis-sum (count)
  "Return the sum of the results of COUNT calls."
  (apply #'+ (mapcar #'string-to-number (redis-replies count))))

(defun redis-fill (count)
  "Have COUNT rows in the list `pairs': two elements each."
  (unless (equal (redis-call "LLEN" "pairs") (number-to-string (* 2 count)))
    (redis-call "DEL" "pairs")
    (apply #'redis-call "RPUSH" "pairs"
           (mapcan (lambda (n) (list (number-to-string n) (number-to-string n)))
                   (number-sequence 1 count)))))

(defun redis-table (count)
  "Return the sum of a table with COUNT rows."
  (let ((values (redis-call "LRANGE" "pairs" "0" (number-to-string (1- (* 2 count)))))
        (result 0))
    (while values
      (setq result (+ result (string-to-number (pop values)) (length (pop values)))))
    result))

(defun redis-run (name count)
  "Do COUNT steps of the case NAME.
Return a list of the result and, if the case does more, the end of the time."
  (let ((result 0))
    (pcase name
      ("record" (redis-begin count)
       (let ((end (current-time))) (list (redis-sum count) end)))
      ("batch" (redis-begin count)
       (list (redis-sum count)))
      ("null" (dotimes (_ count)
                (unless (equal (redis-call "PING") "PONG") (error "No answer to PING")))
       (list count))
      ("pair" (dotimes (n count) (setq result (+ result (redis-echo n))))
       (list result))
      ("two" (dotimes (n count)
               (unless (redis-call "GET" "probe") (error "There is no object"))
               (setq result (+ result (redis-echo n))))
       (list result))
      ("table" (list (redis-table count)))
      (_ (error "There is no case %s" name)))))

(defun redis-next-line ()
  "Return the next line of the input, or nil at its end."
  (condition-case nil (read-string "") (end-of-file nil)))

(defun redis-main ()
  "Answer lines until the input ends."
  (redis-connect (pop command-line-args-left))
  ;; The key of a call that returns an object.
  (redis-call "SET" "probe" "object:1")
  (let (line)
    (while (setq line (redis-next-line))
      (pcase-let* ((`(,name ,count) (split-string line))
                   (count (string-to-number count))
                   (_ (when (equal name "table") (redis-fill count)))
                   (begin (current-time))
                   (`(,result ,end) (redis-run name count))
                   (time (time-subtract (or end (current-time)) begin)))
        (princ (format "%d %d\n" (car (time-convert time 1000000000)) result))))))

(provide 'redis)
;;; redis.el ends here
