;;; run.el --- Runs all tests  -*- lexical-binding: t; -*-

;;; Commentary:

;; `emacs -Q --batch -L FOLDER -l tests/run.el [FILE...]' runs the tests in FILES, or in all, with
;; the library in FOLDER.  The last line says how many have passed, and how many have failed.

;;; Code:

(require 'ert)

(let ((folder (file-name-directory load-file-name))
      (load-prefer-newer t))
  (add-to-list 'load-path folder)
  (dolist (file (or command-line-args-left
                    '("conformance" "sessions" "clients" "connections" "samples" "installed")))
    (load (expand-file-name file folder)))
  (setq command-line-args-left nil))

(let* ((stats (ert-run-tests-batch))
       (passed (ert-stats-completed-expected stats))
       (failed (- (ert-stats-total stats) passed)))
  (message "%d passed, %d failed" passed failed)
  (kill-emacs (if (and (> passed 0) (zerop failed)) 0 1)))

;;; run.el ends here
