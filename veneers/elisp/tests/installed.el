;;; installed.el --- The package, as it is installed  -*- lexical-binding: t; -*-

;;; Commentary:

;; `package-install-file' with an empty folder for packages, outside the repository.

;;; Code:

(require 'served)
(require 'package)

(ert-deftest bifrost-the-package-is-installed ()
  (let* ((folder (make-temp-file "bifrost-test-" t))
         (library (expand-file-name "veneers/elisp/bifrost.el" served-repository))
         (emacs (expand-file-name invocation-name invocation-directory))
         (run (lambda (form)
                (with-temp-buffer
                  (let ((status (call-process emacs nil t nil "-Q" "--batch" "--eval"
                                              (format "%S" form))))
                    (list status (buffer-string)))))))
    (unwind-protect
        (progn
          (pcase-let ((`(,status ,text)
                       (funcall run `(progn (require 'package)
                                            (setq package-user-dir ,folder)
                                            (package-initialize)
                                            (package-install-file ,library)))))
            (should (eql status 0))
            (should-not (let ((case-fold-search nil)) (string-match-p "Warning\\|Error" text))))
          ;; Another Emacs finds it, compiled, and connects.
          (with-server (server "examples/database/database.theta")
            (should (equal (funcall run `(progn
                                           (require 'package)
                                           (setq package-user-dir ,folder)
                                           (package-initialize)
                                           (require 'bifrost)
                                           (princ (byte-code-function-p
                                                   (symbol-function 'bifrost-call)))
                                           (bifrost-with-session (s ,(served-url server))
                                             (princ (bifrost-claim
                                                     (bifrost-> (bifrost-lookup s "database"
                                                                                'DataBase)
                                                                (fetch "ann") visits))))))
                           '(0 "t0")))))
      (delete-directory folder t))))

(provide 'installed)
;;; installed.el ends here
