;;; samples.el --- The samples and the program of the README  -*- lexical-binding: t; -*-

;;; Commentary:

;; The samples print what they promise, and so does the program of the README.

;;; Code:

(require 'served)

(defconst samples-folder
  (expand-file-name "../" (file-name-directory (or load-file-name buffer-file-name)))
  "The folder of the library.")

(defun samples-content (path)
  "Return the text of the file at PATH in the folder of the library."
  (with-temp-buffer
    (insert-file-contents (expand-file-name path samples-folder))
    (buffer-string)))

(defun samples-output (program url)
  "Run PROGRAM, a file, with a server at URL; return what it prints."
  (let ((process-environment (cons (concat "BIFROST_URL=" url) process-environment))
        (coding-system-for-read 'utf-8))
    (with-temp-buffer
      (should (eql (call-process (expand-file-name invocation-name invocation-directory) nil t nil
                                 "-Q" "--batch" "-L"
                                 (file-name-directory (locate-library "bifrost"))
                                 "-l" (expand-file-name program samples-folder))
                   0))
      (buffer-string))))

(defun samples-run (name)
  "Fail unless the sample NAME prints what it promises."
  (with-server (server (format "examples/%s/%s.theta" name name))
    (should (equal (samples-output (format "samples/%s/%s.el" name name) (served-url server))
                   (samples-content (format "samples/%s/expected.txt" name))))))

(ert-deftest bifrost-sample-auctions () (samples-run "auctions"))
(ert-deftest bifrost-sample-database () (samples-run "database"))
(ert-deftest bifrost-sample-lists () (samples-run "lists"))
(ert-deftest bifrost-sample-points () (samples-run "points"))

(ert-deftest bifrost-the-program-of-the-readme ()
  (let* ((readme (samples-content "README.md"))
         (block (lambda (fence)
                  (should (string-match (format "```%s\n\\(\\(?:.*\n\\)*?\\)```" fence) readme))
                  (match-string 1 readme))))
    (with-server (server "examples/database/database.theta")
      (let ((program (expand-file-name "client.el" (served-folder server))))
        (with-temp-file program (insert (funcall block "elisp")))
        (should (equal (samples-output program (served-url server)) (funcall block "text")))))))

(provide 'samples)
;;; samples.el ends here
