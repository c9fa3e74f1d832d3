# Makes a shared matrix of 150 MiB, has another R process change a column, and looks at it.
#     Rscript matrix.R attach.R DESCRIPTOR
suppressMessages(library(bigmemory))
arguments <- commandArgs(trailingOnly = TRUE)
rows <- 983040L
matrix <- big.matrix(rows, 20L, type = "double", init = 0, shared = TRUE)
for (column in 1:20) matrix[, column] <- (seq_len(rows) * column) %% 1009
dput(describe(matrix), arguments[2])
other <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", arguments[1], arguments[2]), stdout = TRUE)
cat("the other process:", other, "\n")
cat(dim(matrix), sum(matrix[, 1]), sum(matrix[, 20]), sum(matrix[, 7]), "\n")
rm(matrix)
invisible(gc())
