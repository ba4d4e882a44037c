;;; checked.el --- Checks documentation and width  -*- lexical-binding: t; -*-

;;; Commentary:

;; `emacs -Q --batch -l tests/checked.el FILE...' fails if checkdoc has a remark about a file, or if
;; a line of one has more than 100 columns.

;;; Code:

(require 'checkdoc)

(let ((remarks 0)
      ;; It takes the noun in "a table of calls" for a verb.
      (checkdoc-verb-check-experimental-flag nil))
  (let ((checkdoc-create-error-function
         (lambda (text start _end &optional _unfixable)
           (setq remarks (1+ remarks))
           (message "%s:%d: %s" (buffer-name) (if start (line-number-at-pos start) 0) text)
           nil)))
    (dolist (file command-line-args-left)
      (with-current-buffer (find-file-noselect file)
        (checkdoc-current-buffer t))))
  (dolist (file command-line-args-left)
    (with-temp-buffer
      (insert-file-contents file)
      (while (not (eobp))
        (end-of-line)
        (when (> (current-column) 100)
          (setq remarks (1+ remarks))
          (message "%s:%d: the line has %d columns" file (line-number-at-pos) (current-column)))
        (forward-line 1))))
  (kill-emacs (if (zerop remarks) 0 1)))

;;; checked.el ends here
