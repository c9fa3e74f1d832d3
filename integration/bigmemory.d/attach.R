# Attaches the matrix that the file describes, prints sums and sets column 7.
suppressMessages(library(bigmemory))
matrix <- attach.big.matrix(dget(commandArgs(trailingOnly = TRUE)[1]))
cat(sum(matrix[, 3]), sum(matrix[, 19]))
matrix[, 7] <- 7
rm(matrix)
invisible(gc())
